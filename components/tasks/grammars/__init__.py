"""Strict grammars of text that a library will evaluate: what they accept is safe, even from a model."""

"""Strict grammars of text that a library will evaluate: what they accept is data, whoever wrote it."""

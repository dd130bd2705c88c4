"""Operators of an evaluation, by slot."""

"""Operators of curate, one room a slot."""

"""Operators of this slot: which responses are learned from."""

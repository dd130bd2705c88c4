"""Operators of this slot: what a response is worth."""

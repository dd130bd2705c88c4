"""Operators of this slot: how much better a response was than expected."""

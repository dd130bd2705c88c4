"""Operators of this slot: the reward of a response."""

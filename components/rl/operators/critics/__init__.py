"""Operators of this slot: what the value model of a step is fitted to."""

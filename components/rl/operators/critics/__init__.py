"""Operators of this slot: the targets of the value model."""

"""Operators of this slot: marks on the batch for later operators, before advantages."""

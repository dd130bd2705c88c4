"""Operators of this slot: terms added to the loss per token."""

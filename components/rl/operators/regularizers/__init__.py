"""Operators of this slot: terms that are added to the loss per token."""

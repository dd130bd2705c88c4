"""Operators of this slot: which prompts a step trains on."""

"""Operators of this slot: how responses to the prompts are drawn."""

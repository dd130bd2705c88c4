"""Judges: models that are asked what a response is worth, or which of several is better."""

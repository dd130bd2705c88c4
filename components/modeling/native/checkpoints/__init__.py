"""Hugging Face folders of the families that the native decoder knows: their config.json, and their weights by name."""

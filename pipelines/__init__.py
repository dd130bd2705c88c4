"""Recipes and what turns them into runs. Never imports torch."""

"""Measures with a value for each prompt."""

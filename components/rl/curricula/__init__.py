"""Shared code of samplers: categories, gains, first pass rates, task spaces."""

"""Weightings of source tasks: one operator a module."""

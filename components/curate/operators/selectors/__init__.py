"""Selectors: one operator a module."""

"""Mergers: one operator a module."""

"""Toy sources."""

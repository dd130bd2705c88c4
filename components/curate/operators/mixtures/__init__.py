"""Mixtures: one operator a module."""

"""Losses of preferences: one operator a module."""

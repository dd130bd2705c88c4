"""Losses of reward models: one operator a module."""

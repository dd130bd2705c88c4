"""Estimates of stages' memory, before anything runs."""

"""Exercises made from the items and worked solutions of another source."""

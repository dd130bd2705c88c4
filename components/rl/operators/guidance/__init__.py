"""Operators of this slot: help for groups before they are learned from."""

"""Operators of this slot: help that is given to groups before they are learned from."""

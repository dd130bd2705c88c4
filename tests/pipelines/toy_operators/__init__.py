"""Operators of the toy slots."""

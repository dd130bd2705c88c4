"""Operators in a user's packages and wheels: gathered, checked without running them, on the import path of a stage."""

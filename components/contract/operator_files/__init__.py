"""Operators that are functions in a user's own file: named, read, checked without running them, loaded by the stage."""

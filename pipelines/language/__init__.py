"""Parses text to a checked document: every value with its source location, every mistake at its line."""

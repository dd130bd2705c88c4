"""Text to a checked document: every value with its place, every mistake at its line."""

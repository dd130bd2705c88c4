"""Kinds of rows that say which response is better, how good one is, or which of its steps are right."""

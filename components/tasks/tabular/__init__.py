"""Readers of table files, a format each: rows with their place, streamed where the format allows it."""

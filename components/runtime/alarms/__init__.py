"""Alarms of running stages: their rules evaluated row by row, what is raised and cleared, and the words for it."""

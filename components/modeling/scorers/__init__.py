"""Scorers: reward models, which give numbers for texts; their heads, their folders, and what they read."""

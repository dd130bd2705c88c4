"""Demonstrators of executable domains: programs, patches, circuits, queries, search and puzzles."""

"""Turns a graph into jobs: what would run, what is cached and why, and its cost."""

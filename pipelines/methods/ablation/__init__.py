"""Ablations: the parts of a method, and its claim without each."""

"""Inputs of a job: what the recipe names becomes verified artifacts on local disk."""

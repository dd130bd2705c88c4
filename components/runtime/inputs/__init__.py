"""Inputs of a job: the recipe's references become verified artifacts on local disk."""

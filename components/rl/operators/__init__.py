"""Operators of the RL step, one room for each slot."""

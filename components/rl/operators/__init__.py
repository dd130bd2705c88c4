"""Operators of the RL step, one package per slot."""

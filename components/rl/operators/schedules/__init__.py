"""Operators of this slot: what changes from step to step besides the weights and the learning rate."""

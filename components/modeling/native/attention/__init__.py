"""Ragged causal attention over packs: one kernel's preparation in each file, and `attend`, which takes one of them."""

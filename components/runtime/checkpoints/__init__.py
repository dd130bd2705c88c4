"""Partial checkpoints of a running stage: snapshots that are written while it goes on."""

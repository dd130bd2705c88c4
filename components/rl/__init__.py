"""Reinforcement learning with verifiable rewards: one loop of slots, and methods as presets of operators."""

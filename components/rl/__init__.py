"""Reinforcement learning with verifiable rewards: one loop, ten slots, and methods as presets of operators."""

"""The typed batch of an RL step, and arithmetic on it."""

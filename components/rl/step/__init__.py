"""The RL step: a pipeline of slots over one batch."""

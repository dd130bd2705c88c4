"""The replay stage: restore what a model forgot while it learned something else."""

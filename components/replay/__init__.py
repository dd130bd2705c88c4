"""The replay stage: give a model back what it forgot while it learned something else."""

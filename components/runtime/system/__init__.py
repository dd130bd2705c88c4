"""The process and its machine: parents, exit codes, code version."""

"""The journal of a training: every step in a line, with what replay and rescore need of it."""

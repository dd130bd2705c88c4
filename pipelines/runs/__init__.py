"""A run and its view: its records, its live tree, its table at the end."""

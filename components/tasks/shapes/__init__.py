"""Shapes of rows that other tools write: recognised by their columns, and brought into ours."""

"""Sources of a person's own."""

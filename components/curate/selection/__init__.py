"""Selection among collected rows: what selectors read, and what they decide."""

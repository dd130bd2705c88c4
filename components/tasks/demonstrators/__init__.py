"""Demonstrators: operators (item, rng, *, config) -> text, one way of writing a response a file."""

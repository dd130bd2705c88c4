"""Demonstrators: operators (item, rng, *, config) -> text, one file for each way of writing a response."""

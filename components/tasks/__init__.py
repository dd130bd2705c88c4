"""Verifiable tasks: items, sources, verifiers and demonstrators."""

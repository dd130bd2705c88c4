"""Tests of items, sources, verifiers and demonstrators."""

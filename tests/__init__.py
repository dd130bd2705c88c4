"""Tests; they mirror the tree, benchmarks beside it."""

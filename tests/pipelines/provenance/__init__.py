"""Provenance of rows, on the runs of a tiny recipe with four sources."""

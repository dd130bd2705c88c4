"""Whole views of a model, with tables and charts."""

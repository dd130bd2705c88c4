"""Generators: operators (items, writers, context) -> rows, one file for each way of making rows."""

"""A package that a recipe names."""

"""Formulas of an evaluation on plain numbers, apart from where the numbers come from."""

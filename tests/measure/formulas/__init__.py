"""Formulas of an evaluation."""

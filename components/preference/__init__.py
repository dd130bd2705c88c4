"""Preference optimisation: a model learns which of several responses is better."""

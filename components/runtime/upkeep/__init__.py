"""Upkeep of a store: what nothing reaches any more is collected, what is damaged is found and set aside."""

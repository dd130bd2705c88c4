"""Upkeep of a store: unreachable data is collected, damaged data is found and set aside."""

"""Operators of this slot: the policy that the trained one is compared with."""

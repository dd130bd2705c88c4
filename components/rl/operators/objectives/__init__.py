"""Operators of this slot: the policy-gradient loss per token."""

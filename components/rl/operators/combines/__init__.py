"""Operators of this slot: how the parts of a reward become one."""

"""Operators of this slot: settings that change from step to step."""

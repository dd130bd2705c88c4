"""Stages on several nodes: a JobSet, made, followed and removed."""

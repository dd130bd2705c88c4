"""Operators of this slot: which batches a step learns from, such as past ones beside its own."""

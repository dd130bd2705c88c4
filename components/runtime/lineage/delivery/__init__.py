"""Delivery of lineage to MLflow, exactly once."""

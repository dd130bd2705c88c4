"""Lineage: events that a run writes to the store, their delivery to MLflow, and queries on the ledger.

Nothing here imports MLflow, except the deliverer while it delivers (run_writer.py, model_writer.py).
"""

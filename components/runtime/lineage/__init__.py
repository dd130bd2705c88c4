"""Lineage: events that a run leaves in the store, their delivery to MLflow, and the questions that the ledger answers.

Nothing here imports MLflow, except the deliverer at work (run_writer.py, model_writer.py).
"""

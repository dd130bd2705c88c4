"""The run ledger: what jobs record, and how runs are read back."""

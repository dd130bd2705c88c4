"""The run ledger: the records of jobs, and reading runs back."""

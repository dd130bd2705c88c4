"""What runs inside containers: one folder per stage, on top of runtime, modeling, tasks and the contract."""

"""The local engine: one process or container per job on this machine."""

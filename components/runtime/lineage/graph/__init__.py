"""The lineage graph: what made an artifact, what was made of it, how two runs differ."""

"""The lineage graph: what made an artifact, what was made from it, how two runs differ."""

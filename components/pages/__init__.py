"""Self-contained HTML pages: the run's report, dataset cards and data gates."""

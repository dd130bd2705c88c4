"""Pages of HTML that stand alone: the run's report, dataset cards and data gates."""

"""One job: its launcher, stage, gates, ranks and end."""

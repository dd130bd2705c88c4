"""One job: the launcher, its stage, its gates, its ranks and its end."""

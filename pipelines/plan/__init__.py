"""A graph to jobs: what would run, what is cached and why, what it takes."""

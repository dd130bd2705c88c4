"""Sweeps: the section `sweep` of a recipe becomes trials, cells of one graph, before anything runs.

`words` > `space` > `samplers` (static draws) > `reach` (which stages differ) > `trials` > `settings` (what the run
draws) > `wire` (rungs, rounds, the best).
"""

"""Manifests of a stage's work: a Job on one node, a JobSet or a TrainJob on several."""

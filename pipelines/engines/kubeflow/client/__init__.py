"""Kubeflow Pipelines from outside and from a task: login, submitting, following, recurring runs. Imports no kfp."""

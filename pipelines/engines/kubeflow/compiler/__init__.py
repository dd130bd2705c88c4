"""A recipe as a pipeline of Kubeflow: its parameters, its tasks, where they run, and what it refuses."""

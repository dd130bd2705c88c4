"""A plan as a Kubeflow pipeline."""

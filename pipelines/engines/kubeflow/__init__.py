"""The Kubeflow engine: recipes as pipelines whose tasks are pods of their node pools."""

"""Models from disk: on the native decoder or on transformers."""

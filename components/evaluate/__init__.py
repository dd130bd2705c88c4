"""The evaluate stage: sample, verify and measure a model on held-out prompts."""

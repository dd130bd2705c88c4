"""The merge stage: one model from the weights of several, without training."""

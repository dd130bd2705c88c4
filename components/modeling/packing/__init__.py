"""Many sequences in one forward pass: packs, micro-batches, log-probabilities."""

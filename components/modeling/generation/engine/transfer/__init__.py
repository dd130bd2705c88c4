"""Weights from the trainer to an engine, bucket by bucket, by the fastest way that both have."""

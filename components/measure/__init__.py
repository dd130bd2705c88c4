"""Measurement: pass@k, intervals, paired tests, sampled and verified outcomes."""

"""Measurement: pass@k, majority votes, calibration, diversity, intervals and paired tests (numpy only, no torch)."""

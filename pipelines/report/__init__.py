"""The report: one self-contained HTML page per run, to send to a colleague."""

"""The report: one self-contained HTML page per run, for a researcher to send to a colleague."""

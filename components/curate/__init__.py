"""Stage curate: from sources to a clean, verifiable, well described dataset."""

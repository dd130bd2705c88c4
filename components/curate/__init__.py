"""The curate stage: from sources to a clean, verifiable, documented dataset."""

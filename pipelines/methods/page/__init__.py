"""The table of methods as a page."""

"""The dataset card and its page."""

"""The dataset card, and data to look at."""

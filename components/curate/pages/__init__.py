"""The dataset card, its page, and the rows of the artifact."""

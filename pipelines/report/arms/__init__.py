"""A matrix in the report: its arms side by side, their curves overlaid, and how they differ on the same prompts."""

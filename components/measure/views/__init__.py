"""The views of the diagnostics, apart from their settings."""

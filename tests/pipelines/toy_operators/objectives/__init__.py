"""No objectives."""

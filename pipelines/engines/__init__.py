"""Engines order jobs, retry them and show them; no data flows through them."""

"""What stages take in memory, before anything runs."""

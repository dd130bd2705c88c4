"""What a reward or a verifier says of rows, before anything trains."""

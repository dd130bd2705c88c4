"""Ways of spending samples at test time."""

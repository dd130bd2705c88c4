"""Commands on claims: what reproduce, its tuning and ablate share."""

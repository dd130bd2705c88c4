"""Language-model training from scratch, or continued."""

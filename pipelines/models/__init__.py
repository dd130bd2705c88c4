"""Models that runs made: found by name, talked to, written as Hugging Face folders with a card."""

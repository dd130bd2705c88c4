"""Models, tokenizers, generation and optimisers."""

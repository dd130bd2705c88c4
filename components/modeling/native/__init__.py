"""The native decoder: a Llama-family transformer in plain torch, for training and for generation."""

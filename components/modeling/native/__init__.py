"""The native decoder: transformers of Llama's kind in plain torch, for training and for generation (README.md)."""

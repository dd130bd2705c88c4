"""A model and its tokenizer behind one interface, and its sizes."""

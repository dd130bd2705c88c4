"""The serve stage: what a model is worth behind the API of the server that will serve it."""

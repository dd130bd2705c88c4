"""The synthesize stage: new rows written by models, endpoints or programs, and cleaned by curate's chain."""

"""How alike texts are: shingles and their neighbours."""

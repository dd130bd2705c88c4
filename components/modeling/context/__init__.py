"""Context parallelism: the tokens of one pack divided over a group of ranks, which compute it together."""

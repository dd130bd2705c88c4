"""A server of a model on this machine's loopback: how it is started, known to be healthy, and stopped for certain."""

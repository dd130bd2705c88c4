"""A server that behaves as Kubernetes' API server does, with the controllers that a driver meets."""

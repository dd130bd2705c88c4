"""Serving: further models beside the trained one, from their weights in this process or at an endpoint."""

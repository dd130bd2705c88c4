"""Serving: models beside the trained one, asked in text: from their weights in this process, or at an endpoint."""

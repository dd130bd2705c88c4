"""What a response's length costs."""


def worth(text: str) -> float:
    """Return 0 for an empty response, and less for longer ones."""
    return -0.01 * len(text)

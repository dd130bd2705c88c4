"""One table from the measurements of many arms."""

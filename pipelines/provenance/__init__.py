"""Where rows come from and where they went: from a source to all that it touched, from an item back to its rows."""

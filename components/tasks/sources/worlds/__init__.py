"""Small worlds that are made, not read: their rows state what is true, so that what a policy knows can be counted."""

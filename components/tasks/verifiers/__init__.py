"""Verifiers: operators (item, response, *, config) -> Verdict, one kind of answer a file."""

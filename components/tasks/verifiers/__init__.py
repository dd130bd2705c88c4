"""Verifiers: operators (item, response, *, config) -> Verdict, one file for each kind of answer."""

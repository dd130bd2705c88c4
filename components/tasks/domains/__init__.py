"""The languages and puzzles of executable domains: what sources, verifiers and demonstrators of one domain share."""

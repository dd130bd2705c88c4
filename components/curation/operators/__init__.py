"""Operators of curation: each keeps, drops or annotates rows."""

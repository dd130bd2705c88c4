"""Verifiers of made worlds, where one that exists does not fit."""

"""Addresses of the web among the settings."""

from __future__ import annotations

from components.contract.errors import InputError


def web_address(variable: str, url: str) -> str:
    """Return an address of the web without its last slash; raise InputError for something else."""
    if not url.startswith(("http://", "https://")) or not url.isprintable() or " " in url:
        raise InputError(f"{variable}={url!r}: expected an address such as https://kubeflow.example.com/pipeline")
    return url.rstrip("/")

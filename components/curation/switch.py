"""Optional parts of a recipe: `off` disables one, `on` enables it with defaults, an object configures it."""

from __future__ import annotations

from typing import Any

from pydantic import BeforeValidator


def _switch(value: Any) -> Any:
    if value is False or value == "off":
        return None
    if value is True or value == "on":
        return {}
    return value


SWITCH = BeforeValidator(_switch)
"""Annotates a field of type `Config | None`; YAML reads a bare off and on as false and true."""

"""Families of methods, by their number in the catalogue of methods."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

FILE = Path(__file__).with_name("families.yaml")
UNLISTED = "not in the catalogue"


def family_of(catalogue: int | None) -> str:
    """Return the family of a method by its catalogue number; `UNLISTED` without one."""
    return UNLISTED if catalogue is None else _families().get(catalogue, UNLISTED)


@cache
def _families() -> dict[int, str]:
    written = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return {number: family for family, numbers in written.items() for number in numbers}

"""Stores and code as the tests of lineage have them."""

from __future__ import annotations

from tests.runtime.lineage.conftest import _fixed_code, store

__all__ = ["_fixed_code", "store"]

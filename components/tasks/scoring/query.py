"""A query on an in-memory database, which is read-only for it."""

from __future__ import annotations

import sqlite3
from typing import Any

STEPS = 10_000
"""Instructions of SQLite's virtual machine between two checks of their number."""
MAX_LOOKS = 5_000
MAX_ROWS = 10_000
MAX_LENGTH = 1_000_000
READS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
REFUSED = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}


def select(argument: dict[str, Any]) -> list[dict[str, Any]]:
    """Return {"value": rows} or {"raised": why} of the query `source` on the tables that each of `setups` makes."""
    return [_select(argument["source"], setup) for setup in argument["setups"]]


def _select(source: str, setup: str) -> dict[str, Any]:
    database = sqlite3.connect(":memory:")
    database.executescript(setup)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LENGTH)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    looks = iter(range(MAX_LOOKS))
    database.set_progress_handler(lambda: next(looks, None) is None, STEPS)
    database.set_authorizer(_may)
    try:
        rows = database.execute(source).fetchmany(MAX_ROWS + 1)
    except sqlite3.Error as error:
        return {"raised": f"{type(error).__name__}: {error}"[:200]}
    if len(rows) > MAX_ROWS:
        return {"raised": f"more than {MAX_ROWS} rows"}
    return {"value": [[cell.hex() if isinstance(cell, bytes) else cell for cell in row] for row in rows]}


def _may(action: int, first: str | None, second: str | None, *_: Any) -> int:
    if action == sqlite3.SQLITE_FUNCTION and second in REFUSED:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in READS else sqlite3.SQLITE_DENY

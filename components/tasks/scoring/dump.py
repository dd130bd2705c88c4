"""A database file as the SQL that makes it again."""

from __future__ import annotations

import base64
import sqlite3


def dump(argument: dict[str, str]) -> dict[str, str]:
    """Return `schema`, the statements that make the tables, and `setup`, which fills them, too.

    `database` holds a SQLite file in base 64, or `script` the SQL that makes one. Text that is not UTF-8 keeps a mark
    in the place of what cannot be read.
    """
    database = sqlite3.connect(":memory:")
    if "script" in argument:
        database.executescript(argument["script"])
    else:
        database.deserialize(base64.b64decode(argument["database"]))
    database.execute("PRAGMA trusted_schema = OFF")
    database.text_factory = lambda raw: raw.decode(errors="replace")
    tables = "SELECT sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
    schema = [f"{sql.strip()};" for (sql,) in database.execute(f"{tables} ORDER BY name")]
    return {"schema": "\n".join(schema), "setup": "\n".join(database.iterdump())}

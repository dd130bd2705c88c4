"""Questions about databases, judged by the rows that a query returns: Spider."""

from __future__ import annotations

import base64
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.runtime.sandbox import Limits, Status
from components.tasks.published.reading import Reading, Row, text
from components.tasks.sandboxed import Request, ask, describe
from components.tasks.scoring import dump, query
from components.tasks.source import SourceRow
from components.tasks.verify import wrong

MAX_BYTES = 2 << 20
"""Largest database file; what it holds travels with every question about it."""
TOLERANCE = 1e-9
NAME = re.compile(r"[\w-]{1,100}")
ORDERED = re.compile(r"\border\s+by\b", re.IGNORECASE)
LIMITS = Limits(seconds=10.0)
MAX_KEPT = 256


def spider(where: str, row: Row, reading: Reading) -> SourceRow:
    """Read `db_id`, `question` and `query`: the tables are the prompt's, and the query's rows are what is expected."""
    name, wanted = text(row, "db_id"), text(row, "query")
    if reading.databases is None or not NAME.fullmatch(name):
        raise InputError(f"db_id {name[:40]!r} is no name of a database")
    schema, setup = _database(reading.databases / name)
    (found,) = _run(query.select, {"source": wanted, "setups": [setup]}, "the query")
    if "raised" in found:
        raise InputError(f"its query raises {found['raised']}")
    test = {"setup": setup, "rows": found["value"], "ordered": bool(ORDERED.search(wanted))}
    return SourceRow(
        where,
        prompt=f"{schema}\n\n{text(row, 'question').strip()}\n\nAnswer with one SQLite query.",
        answer=wanted,
        response=f"```sql\n{wanted.strip()}\n```",
        verifier=reading.verifier,
        data={"language": "sql", "tests": [test], "tolerance": TOLERANCE},
        extras={"database": name},
    )


@lru_cache(maxsize=MAX_KEPT)
def _database(folder: Path) -> tuple[str, str]:
    """Return the statements that make a database's tables, and those that make and fill them."""
    file, script = folder / f"{folder.name}.sqlite", folder / "schema.sql"
    try:
        content = (file if file.is_file() else script).read_bytes()
    except OSError as error:
        raise InputError(f"the folder of `databases` has no {folder.name}/{file.name} and no schema.sql") from error
    if len(content) > MAX_BYTES:
        raise InputError(f"its database has {len(content):,} bytes, and at most {MAX_BYTES:,} are read")
    argument = (
        {"database": base64.b64encode(content).decode()}
        if file.is_file()
        else {"script": content.decode(errors="replace")}
    )
    found = _run(dump.dump, argument, "the database")
    return found["schema"], found["setup"]


def _run(function: Any, argument: dict[str, Any], what: str) -> Any:
    """Return what a function of ours makes of foreign SQL, in the sandbox."""
    request = Request(function, argument, conclude=lambda reply: wrong(""), limits=LIMITS)
    (reply,) = ask([request])
    if reply.status is Status.BROKE:
        raise RuntimeError(describe(reply))
    if reply.status is not Status.VALUE:
        raise InputError(f"{what} {describe(reply)}")
    return reply.value

"""A tracking database that is damaged: lineage waits, and people are told which file and what to do."""

from __future__ import annotations

from pathlib import Path

from components.runtime.lineage.delivery.deliver import deliver, sync
from components.runtime.store import Store
from tests.runtime.lineage.conftest import tell, uri_of

PAGE = 4096


def test_a_file_that_is_no_database_is_named_with_what_to_do(store: Store, tmp_path: Path) -> None:
    tell(store, "quick-1")
    database = tmp_path / "mlflow.db"
    database.write_text("garbage")
    result = sync(store, uri_of(database))["quick-1"]
    assert (result.delivered, result.pending > 0) == (0, True)
    assert result.problem == f"{database} is not a database; move it away and run posttrain lineage sync"
    database.rename(tmp_path / "away.db")
    assert sync(store, uri_of(database))["quick-1"].pending == 0


def test_a_damaged_database_is_told_in_one_line_without_its_queries(store: Store, database: Path) -> None:
    tell(store, "quick-1")
    with database.open("r+b") as stream:
        stream.seek(PAGE)
        stream.write(bytes(database.stat().st_size - PAGE))
    result = deliver(store, "quick-1", uri_of(database))
    assert (result.delivered, result.pending > 0) == (0, True)
    assert result.problem and "malformed; if the file is damaged, move it away and run" in result.problem
    assert "\n" not in result.problem and "SELECT" not in result.problem

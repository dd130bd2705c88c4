"""An append-only log: the rows come back in order, and what is written grows linearly."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import CorruptArtifact
from components.runtime.checkpoints.row_log import LEVELS, MERGED, RowLog


def written_by(paths: list[Path], stored: set[str]) -> int:
    """Return the bytes that a store gets: segments that it does not have yet."""
    fresh = [path for path in paths if path.name not in stored]
    stored |= {path.name for path in paths}
    return sum(path.stat().st_size for path in fresh)


@given(parts=st.lists(st.integers(0, 5), max_size=60), kill_after=st.sets(st.integers(0, 59), max_size=4))
def test_rows_come_back_in_order_whatever_was_cut_and_killed(parts: list[int], kill_after: set[int]) -> None:
    with tempfile.TemporaryDirectory() as name:
        log, expected = RowLog(Path(name) / "log"), []
        for turn, count in enumerate(parts):
            rows = [{"turn": turn, "row": row, "text": "\u2028\n"} for row in range(count)]
            log.append(rows)
            log.cut()()
            expected += rows
            if turn in kill_after:
                log.append([{"never": "cut"}])
                log = RowLog(Path(name) / "log")
        assert log.rows() == expected and RowLog(Path(name) / "log").rows() == expected


def test_bytes_and_files_grow_linearly_with_the_checkpoints(tmp_path: Path) -> None:
    log, stored, total, written = RowLog(tmp_path / "log"), set(), 0, []
    for turn in range(2 * MERGED**LEVELS):
        log.append([{"turn": f"{turn:06d}"} for _ in range(3)])
        total += 3 * len('{"turn":"000000"}\n')
        paths = log.cut()()
        written.append(written_by(paths, stored))
        assert len(paths) <= LEVELS * (MERGED - 1) + turn // MERGED**LEVELS + 1
    once, almost_once = total, total * (MERGED - 1) // MERGED  # the last segment of a merge is only stored merged
    assert sum(written) == once + LEVELS * almost_once
    half = len(written) // 2
    assert sum(written[:half]) == sum(written[half:])


def test_a_row_is_kept_as_it_was_when_it_was_appended(tmp_path: Path) -> None:
    log, row = RowLog(tmp_path / "log"), {"loss": 1.0}
    log.append([row])
    row["loss"] = 2.0
    log.cut()()
    assert log.rows() == [{"loss": 1.0}]


def test_a_missing_segment_is_an_error_and_not_a_shorter_log(tmp_path: Path) -> None:
    log = RowLog(tmp_path / "log")
    for turn in range(3):
        log.append([turn])
        first, *_ = log.cut()()
    copy = shutil.copytree(tmp_path / "log", tmp_path / "copy")
    (copy / first.name).unlink()
    with pytest.raises(CorruptArtifact, match="missing"):
        RowLog(copy)

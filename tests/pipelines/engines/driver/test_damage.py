"""What a driver reads and cannot trust: its own record when it is damaged, and the logs of pods."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pipelines.engines.driver.api import LINE_BYTES, _lines
from pipelines.engines.driver.record import record_key
from pipelines.engines.driver.waiting import notes_key
from tests.pipelines.engines.driver.drives import RUN, STAGE, Killed, drive_of, kills
from tests.support.api_server.events import WELL

RUNS = WELL["runs"]


def test_a_driver_whose_record_is_damaged_finds_its_work(tmp_path: Path) -> None:
    with drive_of(tmp_path) as drive:
        drive.world.steps = [RUNS, kills(drive, Killed)]
        with pytest.raises(Killed):
            drive.driver().drive()
        for key in (record_key(RUN, STAGE), notes_key(RUN, STAGE)):
            drive.store.blobs.write(key, b'{"tries": [{"name": "x')
        drive.world.seconds += 100
        drive.world.steps = [RUNS]
        assert drive.drive() == 0 and drive.causes == ["done"]
        assert len(drive.world.created) == 1 and drive.world.wrong == []


def test_a_line_without_an_end_fills_no_memory() -> None:
    class Endless(io.BytesIO):
        most = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            line = super().readline(size)
            self.most = max(self.most, len(line))
            return line

    stream = Endless(b"a\n" + b"x" * (3 * LINE_BYTES) + b"\n" + b"y" * (LINE_BYTES - 1) + b"\nb\nlast")
    found = list(_lines(stream))
    assert [line[:1] for line in found] == [b"a", b"x", b"y", b"b", b"l"]
    assert stream.most == LINE_BYTES and found[1] == b"x" * LINE_BYTES and found[4] == b"last"

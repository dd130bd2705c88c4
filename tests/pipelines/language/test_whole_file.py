"""Files that people name are written whole, or left as they were."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pipelines.language.whole_file import write_whole


def test_a_write_that_fails_leaves_the_old_text_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    write_whole(path, "old\n")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "new \ud800")  # half of a surrogate pair cannot be written
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_keeps_leading_to_its_file(tmp_path: Path) -> None:
    real, link = tmp_path / "real.yaml", tmp_path / "link.yaml"
    real.write_text("old\n")
    link.symlink_to(real)
    write_whole(link, "new\n")
    assert link.is_symlink()
    assert real.read_text() == "new\n"


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "text\n")
    reader.join(10)
    assert read == ["text\n"]


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "none" / "file", "text")

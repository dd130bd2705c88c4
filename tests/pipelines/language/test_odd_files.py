"""What is no file of the right kind, or too large, gets one clear line at once, whichever command is given it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError
from components.contract.small_files import read_small_file
from components.contract.terminal import visible_line
from components.runtime.inputs.inputs import import_uri, uri_digest
from components.runtime.store import open_store
from pipelines.cli import main

GIGABYTE = 1 << 30


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A folder with a named pipe, a link to a device, a folder, and a file of a gigabyte that takes no room."""
    folder = tmp_path / "odd"
    (folder / "folder.yaml").mkdir(parents=True)
    os.mkfifo(folder / "pipe.yaml")
    (folder / "zero.yaml").symlink_to("/dev/zero")
    with (folder / "huge.yaml").open("wb") as stream:
        stream.truncate(GIGABYTE)
    return folder


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    out, line = capsys.readouterr()
    assert out == "" and line.count("\n") == 1, line
    return line


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("/dev/zero", "a device, not a file"),
        ("zero.yaml", "a device, not a file"),
        ("folder.yaml", "a folder, not a file"),
        ("pipe.yaml", "a named pipe, not a file"),
        ("huge.yaml", "larger than 4 MiB"),
        ("none.yaml", "No such file or directory"),
        ("null\0.yaml", "no file's name has a null character"),
    ],
)
def test_a_job_that_is_no_file(odd: Path, capsys: pytest.CaptureFixture[str], name: str, text: str) -> None:
    path = odd / name
    assert told(capsys, "stage", str(path)) == f"posttrain: job description {visible_line(str(path))}: {text}\n"


def test_a_process_of_a_job_says_the_same(odd: Path) -> None:
    command = [sys.executable, "-m", "components.runtime.job.process", str(odd / "pipe.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pipe.yaml: a named pipe, not a file" in done.stderr


@pytest.mark.parametrize("command", ["validate", "plan", "run"])
@pytest.mark.parametrize("name", ["/dev/zero", "zero.yaml", "pipe.yaml", "folder.yaml", "huge.yaml"])
def test_a_recipe_that_is_no_file(odd: Path, capsys: pytest.CaptureFixture[str], command: str, name: str) -> None:
    line = told(capsys, command, str(odd / name))
    assert any(text in line for text in ("is no plain file", "is a folder", "larger than 1 MiB"))


def test_a_shells_pipe_is_read_to_its_end() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"{}")
    os.close(writer)
    assert read_small_file(f"/dev/fd/{reader}", 10) == b"{}"
    os.close(reader)


def test_an_input_folder_with_what_has_no_end_is_refused(odd: Path, tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    for name, text in (("pipe.yaml", "is a device or a pipe"), ("zero.yaml", "is a link to no file")):
        folder = tmp_path / f"only {name}"
        folder.mkdir()
        (odd / name).rename(folder / name)
        for look in (import_uri, uri_digest):
            with pytest.raises(InputError, match=f"{name} {text}"):
                look(store, str(folder), ArtifactType.MODEL)
    (odd / "loop").symlink_to(odd)
    with pytest.raises(InputError, match="loop is a link to no file"):
        import_uri(store, str(odd), ArtifactType.MODEL)


def test_an_input_of_links_to_files_is_read_when_the_stage_runs(tmp_path: Path) -> None:
    """The hub's cache keeps a model as links to its files."""
    (tmp_path / "blob").write_text("{}")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").symlink_to(tmp_path / "blob")
    store = open_store(str(tmp_path / "store"))
    assert uri_digest(store, str(tmp_path / "model"), ArtifactType.MODEL) is None
    manifest = store.manifest(import_uri(store, str(tmp_path / "model"), ArtifactType.MODEL))
    assert [entry.path for entry in manifest.files] == ["config.json"]

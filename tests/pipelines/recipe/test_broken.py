"""Broken recipes: each is refused with exactly one message at the right place, exit code 2 and no traceback."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.cli import main

pytestmark = pytest.mark.usefixtures("toy_catalog")

FOLDER = Path(__file__).parents[1] / "broken"
FILES = sorted(FOLDER.glob("*.yaml"))
REAL = (
    "yaml_tab",
    "yaml_alias_bomb",
    "yaml_raw_control_character",
    "component_unknown",
    "extends_itself",
    "stage_name_with_shell",
)
"""Those that are also run as a command of its own, since the real catalog changes nothing about them."""

EXPECT = re.compile(r"# expect: (\d+:\d+) (.+)")


def test_all_files_are_found() -> None:
    assert len(FILES) == 181


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_one_message(path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    place, fragment = expected(path)

    code = main(["validate", f"./{path.name}"])

    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    assert line.startswith(f"{path.name}:{place}: {fragment}")


@pytest.mark.parametrize("name", REAL)
def test_as_a_command(name: str) -> None:
    place, fragment = expected(FOLDER / f"{name}.yaml")
    command = [sys.executable, "-m", "pipelines.cli", "plan", f"tests/pipelines/broken/{name}.yaml"]

    done = subprocess.run(command, cwd=FOLDER.parents[2], capture_output=True, text=True, timeout=60)

    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"tests/pipelines/broken/{name}.yaml:{place}: {fragment}")


def expected(path: Path) -> tuple[str, str]:
    """Return "line:column" and the beginning of the message that the file's first line names."""
    found = EXPECT.fullmatch(path.read_bytes().split(b"\n", 1)[0].decode())
    assert found is not None, path
    return found[1], found[2]

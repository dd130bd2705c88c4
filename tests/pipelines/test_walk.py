"""The walk-through of pipelines/README.md against the code: its rooms, its functions, and the order of their calls."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "pipelines" / "README.md"
STEP = re.compile(r"^\|(?P<number>[ \d]*)\|(?P<room>[^|]*)\| `(?P<entered>[\w.]+:[\w.]+)` \|", re.MULTILINE)
NAMED = re.compile(r"`((?:pipelines|components)\.[\w.]+:[\w.]+)`")
MOST_ROOMS = 10
ENTERED = """
import sys, threading
from pipelines.cli import main

entered = []

def note(frame, event, argument):
    if event == "call":
        entered.append(f"{frame.f_globals.get('__name__')}:{frame.f_code.co_qualname}")

threading.setprofile(note)
sys.setprofile(note)
code = main(sys.argv[1:])
sys.setprofile(None)
print("entered", *dict.fromkeys(entered), sep="\\n")
sys.exit(code)
"""


@pytest.fixture(scope="module")
def walk() -> list[tuple[str, str, str]]:
    """Each step: its number if the room is new, the room, and what is entered there."""
    found = [tuple(part.strip() for part in step.groups()) for step in STEP.finditer(README.read_text())]
    assert len(found) >= 10
    return found  # type: ignore[return-value]


def test_it_takes_at_most_ten_rooms_each_with_a_number(walk: list[tuple[str, str, str]]) -> None:
    rooms = dict.fromkeys(room for _, room, _ in walk)
    assert [number for number, _, _ in walk if number] == [str(index) for index in range(1, len(rooms) + 1)]
    assert len(rooms) <= MOST_ROOMS
    for _, room, entered in walk:
        module = entered.partition(":")[0].split(".")
        assert room in ("/".join(module[1:3]), module[1]), f"{entered} is not in {room}"


def test_every_function_that_is_named_exists() -> None:
    named = NAMED.findall(README.read_text())
    assert len(named) >= 15
    for text in named:
        module, _, names = text.partition(":")
        body = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text()).body
        for name in names.split("."):
            kinds = (ast.FunctionDef, ast.ClassDef)
            [found] = [node for node in body if isinstance(node, kinds) and node.name == name]
            body = found.body


def test_a_run_really_takes_this_way(walk: list[tuple[str, str, str]], tmp_path: Path) -> None:
    variables = {"PYTHONPATH": str(ROOT / "tests" / "pipelines" / "plugin"), "POSTTRAIN_LINEAGE": "later"}
    recipe, store = "tests/pipelines/recipes/toy-run.yaml", str(tmp_path / "store")
    done = subprocess.run(
        [sys.executable, "-c", ENTERED, "run", recipe, "--store", store],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    entered = done.stdout.partition("entered\n")[2].splitlines()
    # what runs in the job's own process is seen by its effect: the view is told of it
    here = [step for _, _, step in walk if step.startswith("pipelines.")]
    assert [step for step in entered if step in here] == here

"""Bisection of two versions of the code: a mistake planted in one room of components, and a change in another."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import Project

ROOT = Path(__file__).parents[2]
FOLDERS = ("components", "pipelines", "infra")
RECIPE = """\
name: rows
seed: 1
stages:
  rows:
    uses: curate
    with:
      kind: prompts
      sources:
        - domain: sums
          count: 20
          source: {name: reasoning_gym, task: chain_sum, config: {min_terms: 2, max_terms: 2}}
"""
COUNTED = "for n, value in metrics.items()})\n"
MISTAKE = f'{COUNTED}    context.headline(num_rows=metrics["num_rows"] / 2)\n'


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A checkout of posttrain with two commits, of which the newer one counts half of the rows."""
    code = tmp_path / "code"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, code / name, ignore=shutil.ignore_patterns("__pycache__"))
    _git(code, "init", "-q")
    _commit(code, "good")
    output = code / "components" / "curation" / "output.py"
    text = output.read_text(encoding="utf-8")
    assert text.count(COUNTED) == 1
    output.write_text(text.replace(COUNTED, MISTAKE), encoding="utf-8")
    for room in ("tasks", "rl"):
        (code / "components" / room / "new.py").write_text('"""New."""\n\nADDED = 1\n', encoding="utf-8")
    _commit(code, "bad")
    (tmp_path / "rows.yaml").write_text(RECIPE, encoding="utf-8")
    path = os.pathsep.join([str(code), str(code / "pipelines" / "client" / "src")])
    return Project(tmp_path, str(tmp_path / "store"), {"PYTHONPATH": path})


def _git(code: Path, *arguments: str) -> None:
    own = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "core.hooksPath=/dev/null")
    subprocess.run(["git", *own, *arguments], cwd=code, check=True, capture_output=True)


def _commit(code: Path, message: str) -> None:
    _git(code, "add", "-A")
    _git(code, "commit", "-q", "-m", message)


def test_the_room_with_the_mistake_is_named(project: Project) -> None:
    found = project.json(
        "bisect", "rows.yaml@HEAD~1", "rows.yaml", "--metric", "rows.num_rows", "--seeds", "2", "--max-seeds", "2"
    )
    assert [one["names"] for one in found["differences"]] == [["components/curation"], ["components/tasks"]]
    assert found["without_effect"] == ["code of components/rl: 1 file"], "no stage behind the metric runs it"
    assert [cause["names"] for cause in found["causes"]] == [["code of components/curation: 1 file"]]
    assert (found["good"], found["bad"]) == ([20, 20], [10, 10])
    assert found["causes"][0]["effect"]["value"] == -10
    assert found["without_causes"] == "good"

"""Versions of the code: which rooms differ, what a mixture holds, what is no code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from components.contract.errors import InputError
from pipelines.bisection import versions
from pipelines.bisection.versions import REST_NAME, Versions, find_version

GOOD = {
    "components/rl/run.py": "A = 1\n",
    "components/rl/gone.py": "A = 1\n",
    "components/tasks/sums.py": "A = 1\n",
    "components/contract/job.py": "A = 1\n",
    "pipelines/cli/x.py": "A = 1\n",
    "pipelines/recipes/a.yaml": "name: a\n",
    "components/rl/README.md": "text\n",
    "infra/pools.yaml": "cpu: {}\n",
    "infra/images/a": "x\n",
}
BAD = {
    "components/rl/run.py": "A = 2\n",
    "components/tasks/more.py": "A = 1\n",
    "components/contract/job.py": "A = 2\n",
    "pipelines/cli/x.py": "A = 2\n",
    "pipelines/recipes/a.yaml": "name: b\n",
    "components/rl/README.md": "other\n",
    "infra/images/a": "y\n",
}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose HEAD is GOOD, and whose files are BAD."""
    root = tmp_path / "checkout"
    root.mkdir()
    monkeypatch.setattr(versions, "ROOT", root)
    git(root, "init", "-q")
    write(root, GOOD)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "good")
    (root / "components" / "rl" / "gone.py").unlink()
    write(root, BAD)
    return root


def git(root: Path, *arguments: str) -> None:
    own = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "core.hooksPath=/dev/null")
    subprocess.run(["git", *own, *arguments], cwd=root, check=True, capture_output=True)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def texts(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_rooms_differ_and_each_can_be_taken_by_itself(checkout: Path, tmp_path: Path) -> None:
    both = Versions(find_version("HEAD", tmp_path / "made"), find_version(None, tmp_path / "made"), tmp_path / "made")
    assert both.rooms == ["components/rl", "components/tasks", REST_NAME]
    assert [one.says for one in both.differences()] == [
        "code of components/rl: 2 files",
        "code of components/tasks: 1 file",
        f"code of {REST_NAME}: 2 files",
    ], "neither recipes, pages nor images are code"
    assert both.root(both.rooms) is None, "today's code runs here"
    good = both.root([])
    assert good is not None and texts(good) == GOOD
    mixed = both.root(["components/rl"])
    assert mixed is not None
    found = texts(mixed)
    assert found["components/rl/run.py"] == "A = 2\n" and "components/rl/gone.py" not in found
    assert "components/tasks/more.py" not in found
    assert found["components/contract/job.py"] == found["pipelines/cli/x.py"] == "A = 1\n"
    assert both.root(["components/rl"]) == mixed, "made once"
    assert not list((tmp_path / "made").glob(".code-*"))


def test_a_commit_that_is_not_there_and_code_without_a_repository_are_told(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="has no commit '--output=x'"):
        find_version("--output=x", tmp_path)
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    with pytest.raises(InputError, match="has no commit 'HEAD'"):
        find_version("HEAD", tmp_path)

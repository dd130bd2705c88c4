"""Recipes by git-sync: a link that moves while they are read never mixes two commits, and the commit is known."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from components.contract.errors import InputError
from pipelines.language.find import VARIABLE
from pipelines.language.synced import TRIES, commit_of, consistently
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.language.git_sync import GitSync


@pytest.fixture
def synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitSync:
    """A checkout of two commits, whose recipes extend a parent of the same commit."""
    sync = GitSync(tmp_path)
    for value in (1, 2):
        parent = (
            "name: parent\nseed: {0}\nparams: {{of_parent: {0}}}\nstages: {{rows: {{uses: curate, with: {{sources: "
        )
        parent += "[{{domain: d, source: {{name: jsonl, path: rows.jsonl}}}}]}}}}}}\n"
        child = "name: child\nextends: parent\nparams: {{of_child: {0}}}\n"
        sync.commit({"recipes/parent.yaml": parent.format(value), "recipes/child.yaml": child.format(value)})
    sync.move_to(sync.commits[0])
    monkeypatch.setenv(VARIABLE, str(sync.link / "recipes"))
    return sync


def values() -> dict[str, int]:
    return load_recipe("child").params


def test_the_commit_of_a_file_is_that_of_the_link_before_it(synced: GitSync, tmp_path: Path) -> None:
    assert commit_of(synced.link / "recipes" / "child.yaml") == synced.commits[0]
    synced.move_to(synced.commits[1])
    assert commit_of(synced.link / "recipes" / "child.yaml") == synced.commits[1]
    assert commit_of(tmp_path) is None


def test_a_link_that_moves_between_two_files_is_noticed(synced: GitSync) -> None:
    seen = []

    def read() -> dict[str, int]:
        child = (synced.link / "recipes" / "child.yaml").read_text()
        if not seen:
            synced.move_to(synced.commits[1])
        seen.append(child)
        return values()

    assert consistently(read) == {"of_parent": 2, "of_child": 2}
    assert len(seen) == 2 and seen[0] != seen[1]


def test_files_that_are_gone_with_their_commit_are_read_again(synced: GitSync) -> None:
    seen = []

    def read() -> dict[str, int]:
        first = (synced.link / "recipes").resolve()
        seen.append(first)
        if len(seen) == 1:
            synced.move_to(synced.commits[1])
            shutil.rmtree(first.parent)  # git-sync removes what the link left
        assert (first / "child.yaml").read_text()
        return values()

    assert consistently(read) == {"of_parent": 2, "of_child": 2}


def test_mistakes_are_told_and_a_link_that_never_rests_is_refused(synced: GitSync) -> None:
    with pytest.raises(InputError, match="unknown recipe 'nothing'"):
        consistently(lambda: load_recipe("nothing"))
    turns = []

    def read() -> None:
        turns.append(1)
        synced.move_to(synced.commits[len(turns) % 2])

    with pytest.raises(InputError, match=f"moved the recipes of {VARIABLE} {TRIES} times"):
        consistently(read)


def test_the_repository_is_a_bare_one(synced: GitSync) -> None:
    said = subprocess.run(
        ["git", "-C", str(synced.bare), "rev-parse", "--is-bare-repository"], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "true"

"""A recipe with a reward and a verifier in files: run, edited, killed, broken, and on S3."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from components.contract.operator_files import library
from components.contract.operator_files.code import OperatorCode
from components.tasks.item import Item
from components.tasks.verify import verify_all
from tests.support.command_line import Project, caches, digests

FILES = Path(__file__).parent / "operator_files"
README = Path(__file__).parents[2] / "pipelines" / "recipe" / "README.md"


def project(folder: Path, store: str | None = None) -> Project:
    """Return a project whose folder holds the recipe and its files."""
    shutil.copytree(FILES, folder, dirs_exist_ok=True)
    own = Project(folder, store or str(folder / "store"))
    edit(own, "mine.yaml", "path: rows.jsonl", f"path: {FILES / 'rows.jsonl'}")  # data is named by its path
    return own


def edit(own: Project, file: str, old: str, new: str) -> None:
    path = own.folder / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def run(own: Project, *arguments: str) -> dict[str, Any]:
    return own.run(*arguments, recipe="mine.yaml")


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, dict[str, Any]]:
    """A project in which the recipe ran."""
    own = project(tmp_path_factory.mktemp("straight"))
    return own, run(own)


def test_the_readme_shows_these_very_files() -> None:
    text = README.read_text()
    for name in ("mine.yaml", "my_reward.py", "worth.py", "check.py"):
        assert (FILES / name).read_text() in text, name
    assert json.dumps(json.loads((FILES / "rows.jsonl").read_text().splitlines()[0])) in text


def test_the_readmes_verifier_runs_a_response_in_the_sandbox() -> None:
    text = README.read_text().partition("# programs.py\n")[2].partition("```")[0]
    code = OperatorCode(file="programs.py", files={"programs.py": text})
    library.keep([code])
    item = Item(
        id="i",
        domain="d",
        prompt="Double.",
        answer="-",
        verifier=code.name("on_pairs"),
        data={"pairs": [[1, 2], [2, 4]]},
    )
    verdicts = verify_all((item, f"```python\ndef f(x): return {body}\n```") for body in ("2 * x", "x + 1", "1 / 0"))
    assert [verdict.score for verdict in verdicts] == [1.0, 0.5, 0.0]


def test_an_edited_file_reruns_the_stages_that_use_it_and_no_other(
    straight: tuple[Project, dict[str, Any]], tmp_path: Path
) -> None:
    first, shown = straight
    assert shown["status"] == "succeeded"
    shutil.copytree(first.folder, tmp_path, dirs_exist_ok=True)
    own = Project(tmp_path, str(tmp_path / "store"))
    assert {stage["outlook"] for stage in own.json("plan", "mine.yaml")["stages"]} == {"cached"}

    edit(own, "worth.py", "-float", "-2 * float")
    planned = {stage["name"]: stage for stage in own.json("plan", "mine.yaml")["stages"]}
    assert [name for name, stage in planned.items() if stage["outlook"] == "run"] == ["rl"]
    assert "my_reward.py:brevity or what it imports was edited" in planned["rl"]["reason"]
    again = run(own)
    assert caches(again) == {"corpus": "hit", "data": "hit", "base": "hit", "rl": "miss"}
    assert digests(again)["rl.model"] != digests(shown)["rl.model"]

    edit(own, "check.py", "== answer", "== answer and True")
    outlooks = {stage["name"]: stage["outlook"] for stage in own.json("plan", "mine.yaml")["stages"]}
    assert set(outlooks.values()) == {"run"}, "the rows name the verifier by its content"


@pytest.mark.parametrize(
    ("new", "said", "edited"),
    [
        ("1 / 0", "raised ZeroDivisionError: division by zero, at worth.py:2", "worth.py:2"),
        pytest.param("float('inf')", "returned inf for completion", "my_reward.py:9", marks=pytest.mark.slow),
    ],
)
def test_a_broken_reward_says_in_one_line_what_to_edit(
    straight: tuple[Project, dict[str, Any]], tmp_path: Path, new: str, said: str, edited: str
) -> None:
    shutil.copytree(straight[0].folder, tmp_path, dirs_exist_ok=True)
    own = Project(tmp_path, str(tmp_path / "store"))
    edit(own, "worth.py", "-float(len(text))", new)
    out = own.call("run", "mine.yaml", code=1)  # without a traceback
    (line,) = [line for line in out.splitlines() if line.startswith("rl failed:")]
    assert f"stage 'rl': reward operator my_reward.py:brevity {said}" in line
    log = Path(line.rpartition("traceback: ")[2])
    assert log.name == "rl.log"
    if "raised" in said:
        assert "Traceback" in log.read_text() and "return 1 / 0" in log.read_text()
    assert f"next    edit {edited}; then the same command runs rl from its start" in out
    assert "goes on" not in out and "tries again" not in out
    edit(own, "worth.py", new, "-float(len(text))")
    assert set(caches(run(own)).values()) == {"hit"}


@pytest.mark.slow
def test_a_run_killed_in_the_stage_that_uses_a_file_ends_in_the_same_bytes(
    straight: tuple[Project, dict[str, Any]], tmp_path: Path
) -> None:
    own = project(tmp_path)
    process = own.start("run", "mine.yaml", "--json")
    deadline = time.monotonic() + 300
    while not list((tmp_path / "store" / "partial").glob("*/0*")) if (tmp_path / "store").exists() else True:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    own.run(recipe="mine.yaml")
    (ran,) = own.json("list", "runs")["runs"]
    shown = own.json("show", ran["run_id"])
    assert shown["status"] == "succeeded"
    assert digests(shown) == digests(straight[1])


@pytest.mark.slow
def test_the_digests_on_s3_are_those_of_a_directory(
    straight: tuple[Project, dict[str, Any]], s3_uri: str, tmp_path: Path
) -> None:
    assert digests(run(project(tmp_path, s3_uri))) == digests(straight[1])


@pytest.mark.slow
def test_rows_bring_their_verifier_from_the_store(straight: tuple[Project, dict[str, Any]], tmp_path: Path) -> None:
    """Another recipe takes the rows by their digest, without the file: the store has it."""
    first, shown = straight
    shutil.copytree(first.folder / "store", tmp_path / "store")
    made = digests(shown)
    inputs = f"{{model: 'artifact:{made['base.model']}', dataset: 'artifact:{made['data.dataset']}'}}"
    (tmp_path / "other.yaml").write_text(
        f"name: other\nstages:\n  eval: {{uses: evaluate, in: {inputs}, with: {{num_samples: 2, max_new_tokens: 4}}}}\n"
    )
    own = Project(tmp_path, str(tmp_path / "store"))
    assert own.run(recipe="other.yaml")["status"] == "succeeded"

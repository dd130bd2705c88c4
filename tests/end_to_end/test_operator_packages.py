"""Operators in packages and wheels: run, edited, taken where the folder is not, kept off the driver's import path."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.runtime.ledger.records import stage_key
from components.runtime.store import open_store
from pipelines.plan.plan import build_plan
from pipelines.recipe.recipe import load_recipe
from tests.contract.operator_packages.wheels import build_wheel
from tests.support.command_line import Project, caches, digests

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests" / "pipelines" / "engines" / "operator_files"
TRAINED = Path(__file__).parent / "operator_packages"
RECIPE = """\
name: mine
code: [./own_package, {wheel}]
stages:
  own:
    uses: curate
    with: {{dedup: {{near: null}}, sources: [{{domain: own, source: {{name: "own_package.sources:rows", count: 4}}}}]}}
  other:
    uses: curate
    with: {{dedup: {{near: null}}, sources: [{{domain: own, source: {{name: "rules.sources:three"}}}}]}}
"""
WHEEL = """\
from components.tasks.source import SourceConfig, SourceRequest, SourceRow, SourceRows


def three(request: SourceRequest, *, config: SourceConfig) -> SourceRows:
    return SourceRows((SourceRow(where=str(n), prompt=f"{n} twice", answer=f"{n}{n}") for n in range(3)), {"name": "r"})
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, dict[str, Any]]:
    """A project with a package and a wheel beside its recipe, which ran."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copytree(SOURCE / "own_package", folder / "own_package")
    wheel = build_wheel(folder / "dist", "rules", {"rules/__init__.py": "", "rules/sources.py": WHEEL})
    (folder / "mine.yaml").write_text(RECIPE.format(wheel=f"./dist/{wheel.name}"))
    own = Project(folder, str(folder / "store"))
    return own, own.run(recipe="mine.yaml")


def copied(made: tuple[Project, dict[str, Any]], folder: Path) -> Project:
    shutil.copytree(made[0].folder, folder, dirs_exist_ok=True)
    return Project(folder, str(folder / "store"))


def outlooks(own: Project) -> dict[str, str]:
    return {stage["name"]: stage["outlook"] for stage in own.json("plan", "mine.yaml")["stages"]}


def test_a_changed_file_runs_the_stages_that_use_its_package_and_no_other(
    made: tuple[Project, dict[str, Any]], tmp_path: Path
) -> None:
    own = copied(made, tmp_path)
    assert made[1]["status"] == "succeeded" and outlooks(own) == {"own": "cached", "other": "cached"}
    letters = tmp_path / "own_package" / "data" / "letters.txt"
    letters.write_text(letters.read_text().upper())
    assert outlooks(own) == {"own": "run", "other": "cached"}
    again = own.run(recipe="mine.yaml")
    assert caches(again) == {"own": "miss", "other": "hit"}
    assert digests(again)["own.dataset"] != digests(made[1])["own.dataset"]
    assert not list(tmp_path.rglob("__pycache__")), "nothing is written beside the code, here or in the store"


def test_lineage_and_report_name_the_code_by_digest(made: tuple[Project, dict[str, Any]]) -> None:
    own, _ = made
    store = open_store(own.store)
    (key,) = [key for key in store.keys("spool/") if "/own/" in key and key.endswith("started.json")]
    event = store.get(key)
    assert event is not None
    (name,) = [name for name in event["code"]["files"] if name == "own_package (code)"]
    digest = event["code"]["files"][name]
    assert (store.fetch(digest) / "own_package" / "sources.py").is_file()
    (page,) = [path for path in Path(own.store).glob("objects/*/files/index.html") if digest[:12] in path.read_text()]
    text = page.read_text()
    assert "own_package" in text and "rules-1.0-py3-none-any.whl" in text


def test_a_job_takes_its_packages_from_the_store_and_only_those_that_it_uses(
    made: tuple[Project, dict[str, Any]], tmp_path: Path
) -> None:
    """What a pod gets is a job on standard input, and a store; of the recipe's folder it sees nothing."""
    own = copied(made, tmp_path / "own")
    recipe = load_recipe(str(own.folder / "mine.yaml"))
    assert "own_package" not in sys.modules and not any("own_package" in place for place in sys.path)
    jobs = {job.stage: job for job in build_plan(recipe, str(tmp_path / "store"), made[1]["run_id"]).jobs}
    assert [tree.name for tree in jobs["own"].code[0].trees] == ["own_package"]
    shutil.move(own.store, tmp_path / "store")
    shutil.rmtree(tmp_path / "own")
    shutil.rmtree(tmp_path / "store" / "actions")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "POSTTRAIN_LINEAGE": "later"}
    done = subprocess.run(
        [sys.executable, "-m", "components.runtime.job.process", "-"],
        input=jobs["own"].model_copy(update={"run_id": "elsewhere"}).model_dump_json(),
        text=True, capture_output=True, cwd="/", env=environment, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["event"], last["status"], last["cache"]) == ("finished", "done", "miss")
    entry = open_store(str(tmp_path / "store")).get(stage_key("elsewhere", "own"))
    assert entry is not None and entry["outputs"]["dataset"]["digest"] == digests(made[1])["own.dataset"]


def test_mistakes_are_told_in_one_line_at_their_place(made: tuple[Project, dict[str, Any]], tmp_path: Path) -> None:
    own = copied(made, tmp_path)
    file = tmp_path / "mine.yaml"
    text = file.read_text()

    def said(new: str) -> str:
        file.write_text(new)
        process = own.start("validate", "mine.yaml")
        out, err = process.communicate()
        assert process.returncode == 2 and "Traceback" not in out + err
        (line,) = [line for line in (out + err).splitlines() if line.startswith("mine.yaml:")]
        return line

    assert "mine.yaml:2:8: code: no_package: no such package folder" in said(
        text.replace("./own_package", "./no_package")
    )
    assert "own_package has no module 'own_package.source'" in said(
        text.replace("own_package.sources", "own_package.source")
    )
    assert "did you mean 'rows'" in said(text.replace("sources:rows", "sources:row"))
    assert "name the package of other.rules in the recipe's code" in said(
        text.replace("own_package.sources", "other.rules")
    )
    (tmp_path / "in" / "json").mkdir(parents=True)
    (tmp_path / "in" / "json" / "__init__.py").touch()
    assert "has the name of one of Python's own" in said(text.replace("./own_package,", "./own_package, ./in/json,"))
    assert "https://x/y.whl: code lies on this machine" in said(text.replace("./own_package,", "'https://x/y.whl',"))
    file.write_text(text)
    (tmp_path / "own_package" / "sources.py").write_text("def rows(:\n")
    assert "own_package/sources.py:1: not Python" in said(text)


def test_a_wheel_that_another_requires_is_listed_and_pinned(tmp_path: Path) -> None:
    first = build_wheel(
        tmp_path / "dist", "rules", {"rules/__init__.py": "", "rules/sources.py": WHEEL}, requires=["tales>=2"]
    )
    recipe = RECIPE.format(wheel=f"./dist/{first.name}").replace("./own_package, ", "")
    recipe = recipe[: recipe.index("  own:")] + recipe[recipe.index("  other:") :]
    own = Project(tmp_path, str(tmp_path / "store"))
    (tmp_path / "mine.yaml").write_text(recipe)
    process = own.start("validate", "mine.yaml")
    assert "rules-1.0-py3-none-any.whl requires tales>=2; list its wheel, too" in "".join(process.communicate())
    old = build_wheel(tmp_path / "dist", "tales", {"tales.py": "X = 1\n"})
    (tmp_path / "mine.yaml").write_text(recipe.replace("]\n", f", ./dist/{old.name}]\n", 1))
    process = own.start("validate", "mine.yaml")
    assert "requires tales>=2, and there is tales 1.0" in "".join(process.communicate())
    new = build_wheel(tmp_path / "dist", "tales", {"tales.py": "X = 1\n"}, version="2.1")
    (tmp_path / "mine.yaml").write_text(recipe.replace("]\n", f", ./dist/{new.name}]\n", 1))
    process = own.start("validate", "mine.yaml")
    pin = "".join(process.communicate()).partition("write ")[2].split()[0]
    assert pin.startswith(f"./dist/{new.name}#sha256=")
    (tmp_path / "mine.yaml").write_text(recipe.replace("]\n", f", {pin}]\n", 1))
    own.call("validate", "mine.yaml")


@pytest.mark.slow
def test_a_reward_in_a_package_trains(tmp_path: Path) -> None:
    shutil.copytree(TRAINED, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "mine.yaml"
    file.write_text(file.read_text().replace("path: rows.jsonl", f"path: {tmp_path / 'rows.jsonl'}"))
    own = Project(tmp_path, str(tmp_path / "store"))
    shown = own.run(recipe="mine.yaml")
    assert shown["status"] == "succeeded"
    (rl,) = [stage for stage in shown["stages"] if stage["name"] == "rl"]
    assert rl["metrics"]["reward_mean"] < 0

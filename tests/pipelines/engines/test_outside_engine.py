"""An engine of an outside package: in help, plan, run, approvals and report, with no line about it in this tree."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.command_line import caches, digests
from tests.support.toy_command import RECIPE, Command, toy_command

ASKING = """
name: asking
stages:
  first: {uses: toy-train}
  asked: {uses: toy-train, in: {model: first.model}, approve: true, retries: 2}
"""


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """The command line with the toy package installed."""
    return toy_command(tmp_path / "store")


@pytest.fixture
def asking(tmp_path: Path) -> str:
    """A recipe that needs a person, and a stage that may be tried again."""
    path = tmp_path / "asking.yaml"
    path.write_text(ASKING)
    return str(path)


def test_help_names_it(command: Command) -> None:
    text = " ".join(command("run", "--help").stdout.split())
    assert "what orders the jobs: local, airflow, kubeflow, toy (default: local)" in text
    said = command("run", RECIPE, "--engine", "tow")
    assert (said.returncode, said.stdout) == (2, "")
    assert "unknown --engine 'tow'; did you mean 'toy'? (known: local, airflow, kubeflow, toy)" in said.stderr


def test_it_makes_what_the_local_engine_makes(command: Command, tmp_path: Path) -> None:
    done = command("run", RECIPE, "--engine", "toy", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    here = toy_command(tmp_path / "other")("run", RECIPE, "--json")
    assert digests(shown) == digests(json.loads(here.stdout))
    assert (shown["engine"], shown["status"]) == ("toy", "succeeded")
    assert shown["command"].endswith("--engine toy"), "what is shown reproduces the run on the same engine"
    again = json.loads(command("run", RECIPE, "--engine", "toy", "--json").stdout)
    assert set(caches(again).values()) == {"hit", "none"}, "nothing is made twice; `again` is skipped"


def test_the_report_of_its_runs_names_it(command: Command) -> None:
    assert command("run", RECIPE, "--engine", "toy").returncode == 0
    page = Path(command("report", "latest").stdout.strip()).read_text()
    assert "--engine toy" in page


def test_a_failure_is_recorded_and_what_stands_behind_is_not_run(command: Command) -> None:
    done = command("run", RECIPE, "--engine", "toy", "--set", "fail=true")
    assert done.returncode == 1, done.stderr
    assert "told to fail" in done.stdout
    shown = json.loads(command("show", "latest", "--json").stdout)
    assert shown["status"] == "failed"


def test_what_it_cannot_do_is_refused_by_name_before_anything_runs(
    command: Command, asking: str, tmp_path: Path
) -> None:
    for words in (["run"], ["plan"]):
        said = command(*words, asking, "--engine", "toy")
        assert (said.returncode, said.stdout) == (2, "")
        assert said.stderr.splitlines() == [
            "posttrain: engine toy cannot wait for a person's approval: it has nowhere to ask (stages: asked); "
            "use --engine local or airflow or kubeflow",
            "engine toy cannot try a failed stage again: `retries` must be 0 (stages: asked); "
            "use --engine local or airflow or kubeflow",
        ]
    assert not (tmp_path / "store" / "ledger").exists(), "nothing has run"
    said = command("run", RECIPE, "--engine", "toy", "--jobs", "2", "--containers").stderr
    assert (
        "engine toy cannot bound the cores of this machine (--jobs): it runs one job at a time; use --engine local"
        in said
    )
    assert "engine toy cannot run jobs in containers of this machine (--containers)" in said


def test_a_cached_stage_needs_nothing_of_its_engine_but_its_approval(command: Command, asking: str) -> None:
    first = command("run", asking)
    assert first.returncode == 3, first.stderr
    assert command("approve", "latest", "asked").returncode == 0
    assert command("run", asking).returncode == 0
    said = command("run", asking, "--engine", "toy")
    assert (said.returncode, "wait for a person's approval" in said.stderr) == (2, True)
    assert "retries" not in said.stderr
    assert command("run", asking, "--set", "stages.asked.approve=false", "--engine", "toy").returncode == 0


def test_the_plan_says_what_it_can_do(command: Command) -> None:
    said = command("plan", RECIPE, "--engine", "toy").stdout
    assert "engine toy: one job after the other, each in a process of its own (timeouts, " in said
    assert json.loads(command("plan", RECIPE, "--engine", "toy", "--json").stdout)["engine"] == "toy"


def test_a_run_of_an_engine_that_is_no_longer_installed_can_still_be_shown(command: Command, tmp_path: Path) -> None:
    assert command("run", RECIPE, "--engine", "toy").returncode == 0
    copy = tmp_path / "without"
    shutil.copytree(Path("tests/pipelines/plugin"), copy)
    points = next(copy.glob("*.dist-info")) / "entry_points.txt"
    points.write_text(points.read_text().partition("[posttrain.engines]")[0])
    bare = {"PYTHONPATH": str(copy)}
    assert command("show", "latest", variables=bare).returncode == 0
    assert "unknown --engine 'toy'" in command("run", RECIPE, "--engine", "toy", variables=bare).stderr


def test_what_is_registered_and_is_no_engine_is_told_with_its_package(command: Command, tmp_path: Path) -> None:
    copy = tmp_path / "broken"
    shutil.copytree(Path("tests/pipelines/plugin"), copy)
    points = next(copy.glob("*.dist-info")) / "entry_points.txt"
    points.write_text(points.read_text() + "none = posttrain_toy:TRAIN\ngone = posttrain_toy.nowhere:X\n")
    bare = {"PYTHONPATH": str(copy)}
    said = command("run", RECIPE, "--engine", "none", variables=bare).stderr
    assert said == (
        "posttrain: engine 'none' (package posttrain-toy 1.0): posttrain_toy:TRAIN is not an Engine of this name\n"
    )
    said = command("run", RECIPE, "--engine", "gone", variables=bare).stderr
    assert "engine 'gone' (registered by package posttrain-toy 1.0): cannot load posttrain_toy.nowhere:X" in said
    assert command("run", RECIPE, "--engine", "toy", "--jobs", "1", variables=bare).returncode == 2, (
        "others are not hit"
    )


def test_a_package_cannot_take_the_name_of_an_engine_that_is_there(command: Command, tmp_path: Path) -> None:
    copy = tmp_path / "greedy"
    shutil.copytree(Path("tests/pipelines/plugin"), copy)
    points = next(copy.glob("*.dist-info")) / "entry_points.txt"
    points.write_text(points.read_text() + "local = posttrain_toy.engine:ToyEngine\n")
    said = command("run", "--help", variables={"PYTHONPATH": str(copy)})
    assert (said.returncode, said.stderr) == (
        2,
        "posttrain: engine 'local' is registered twice: pipelines.engines.local.engine:LocalEngine by "
        "pipelines/engines/registry.py, and posttrain_toy.engine:ToyEngine by package posttrain-toy 1.0\n",
    )

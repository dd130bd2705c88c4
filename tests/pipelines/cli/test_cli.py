"""The command line: what it prints for people and scripts, its exit codes, and that no error is a traceback."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import main
from pipelines.cli.output import seconds_text
from pipelines.cli.parser import build_parser

pytestmark = pytest.mark.usefixtures("toy_catalog")

RECIPES = Path(__file__).parents[1] / "recipes"
COMMANDS = ["run", "plan", "validate", "show", "list", "lineage", "compare", "components", "operators", "stage", "ui"]
COMMANDS += ["approve", "report", "replay", "rescore"]
TINY = str(RECIPES / "tiny.yaml")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run a command in this process; return exit code, stdout and stderr."""
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return code, printed.out, printed.err


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for command in COMMANDS:
        assert f"\n    {command} " in out or f"\n    {command}\n" in out
        assert run(capsys, command, "--help")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vaildate", "x"], "unknown command 'vaildate'; did you mean 'validate'?"),
        (["run"], "the following arguments are required: RECIPE"),
        (["run", "x", "--engine", "airfow"], "unknown --engine 'airfow'; did you mean 'airflow'?"),
        (["run", "x", "--jobs", "0"], "argument --jobs: expected at least 1"),
        (["run", "x", "--seed", "-1"], "argument --seed: got '-1'"),
        (["plan", "quickstrat"], "unknown recipe 'quickstrat'; did you mean 'quickstart'?"),
        (["plan", "none.yaml"], "recipe 'none.yaml': no such file"),
        (["plan", "../../etc/passwd"], "recipe '../../etc/passwd': no such file"),
        (["plan", "x\0.yaml"], "recipe 'x\\x00.yaml': no such file"),
        (["plan", TINY, "--store", "ftp://x"], "unknown scheme 'ftp'"),
        (["plan", TINY, "--store", ""], "store: an empty string is no place"),
        (["show", "latest", "--store", TINY], "is a file; a store is a folder"),
        (["plan", "./"], "recipe './' is a folder; name a recipe or its YAML file"),
        (["plan", TINY, "--set", "rl_stepz=3"], "did you mean 'rl_steps'?"),
        (["run", TINY, "--engine", "airflow"], "no Airflow is known"),
        (["run", TINY, "--engine", "kubeflow"], "Kubeflow's libraries have an environment of their own"),
        (["show", "latest"], "there are no runs in"),
        (["compare", "a", "b"], "there are no runs in"),
        (["approve", "latest", "rl"], "there are no runs in"),
        (["report", "latest"], "there are no runs in"),
        (["replay", "latest"], "the following arguments are required: --step"),
        (["replay", "latest:rl", "--step", "0"], "argument --step: expected at least 1"),
        (["replay", "latest:rl", "--step", "3"], "there are no runs in"),
        (["rescore", "latest:rl"], "rescore: name what judges: --reward, --verifier or --combine"),
        (["rescore", "latest:rl", "--reward", "verifier"], "there are no runs in"),
        (["rescore", "latest:rl", "--reward", "verifier", "--steps", "9-3"], "got '9-3': it ends before it begins"),
        (["lineage", "model"], "unknown artifact or registered model 'model'"),
        (["components", "evalute"], "unknown component 'evalute'; did you mean 'evaluate'?"),
        (["operators", "sources"], "unknown slot or operator 'sources'; did you mean 'source'?"),
        (["operators", "source", "cuonting"], "unknown source operator 'cuonting'; did you mean 'counting'?"),
        (
            ["methods", "dapo", "grpo"],
            "arguments: grpo; 'posttrain diff A B' shows how two methods differ (see posttrain methods ",
        ),
        (["show", "latest", "latest"], "unrecognized arguments: latest (see posttrain show --help)"),
        (["airflow", "up", "now"], "unrecognized arguments: now (see posttrain airflow up --help)"),
        (["stage", "none.json"], "job description none.json: No such file"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_bad_input_is_one_line_and_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_the_version_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--version")
    assert (code, out.split()[0], err) == (0, "posttrain", "")


def test_validate(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "validate", TINY, str(RECIPES / "loops.yaml")) == (
        0,
        "tiny: valid, 6 stages\nloops: valid, 20 stages\n",
        "",
    )
    code, out, err = run(capsys, "validate", TINY, "--json", "--set", "rl_steps=0", "--set", "stages.sft.pool=moon")
    found = json.loads(out)
    assert (code, err, found["valid"]) == (2, "", False)
    assert [problem["message"].partition(":")[0] for problem in found["problems"]] == [
        "unknown pool 'moon' (known",
        "stage 'rl', with.steps",
    ]
    assert [problem["line"] for problem in found["problems"]] == [0, 18]


def test_plan_for_scripts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = run(capsys, "plan", TINY, "--json", "--seed", "5")
    plan: dict[str, Any] = json.loads(out)
    assert (code, err, plan["recipe"], plan["seed"]) == (0, "", "tiny", 5)
    stages = {stage["name"]: stage for stage in plan["stages"]}
    assert list(stages) == ["base", "data", "sft", "rl", "before", "after"]
    assert {(stage["cached"], stage["reason"]) for stage in stages.values()} == {(False, "never run")}
    assert stages["rl"]["pool"] == "h100x8"
    assert stages["rl"]["after"] == ["sft", "data"]
    assert plan["without_basis"] == ["rl"]
    assert not (tmp_path / ".posttrain").exists()


def test_plan_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "plan", TINY, "--set", "stages.sft.when=params.steps > 99")
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "tiny: Every stage once"
    assert lines[3].split() == ["stage", "component", "pool", "will", "why", "about", "after"]
    assert lines[4].split() == ["base", "pretrain", "cpu", "run", "never", "run", "-", "-"]
    assert "left out: sft (when is false: params.steps > 99)" in lines
    cost = "cost: no basis, none of these stages has run before on such a pool and model"
    assert lines[-1] == f"2 to run; on cpu (2); {cost}"


def test_catalog(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "components")[1]
    assert [line.split()[0] for line in out.splitlines()] == [
        "component",
        *["collect", "curate", "divide", "evaluate", "pretrain", "rl", "sft", "sweep"],
    ]
    rows = [line.split("  ") for line in run(capsys, "components", "rl")[1].splitlines()]
    cells = {row[0]: [cell.strip() for cell in row[1:] if cell.strip()] for row in rows}
    assert cells["steps"] == ["int", "60", "Optimiser steps."]
    assert cells["optimizer.name"] == ["adamw | muon", "adamw", "Which optimiser."]
    assert cells["learning_rate"] == ["number | auto", "auto", 'A number or "auto".']
    assert cells["kl"] == ["divergence"]
    facts = json.loads(run(capsys, "components", "curate", "--json")[1])
    assert facts["inputs"]["policy"] == {
        "type": "Model",
        "doc": "whose pass rate is measured",
        "optional": True,
        "many": False,
    }
    assert facts["params"]["properties"]["rows"]["minimum"] == 1
    assert json.loads(run(capsys, "operators", "source", "counting", "--json")[1])["config"]["properties"]["count"]
    assert run(capsys, "operators")[1].splitlines()[1].split()[:2] == ["source", "counting"]


def test_lists(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTTRAIN_RECIPES", os.pathsep.join([str(RECIPES), str(tmp_path / "none")]))
    found = json.loads(run(capsys, "list", "--json")[1])
    recipes = {recipe["name"]: recipe for recipe in found["recipes"]}
    assert recipes["tiny"]["summary"] == "Every stage once"
    assert "quickstart" in recipes
    assert found["runs"] == []
    assert "no runs yet" in run(capsys, "list", "runs")[1]
    (tmp_path / "bad.yaml").write_text("name: [\n")
    monkeypatch.setenv("POSTTRAIN_RECIPES", str(tmp_path))
    assert "cannot be read: not valid YAML" in run(capsys, "list", "recipes")[1]


def test_stage_refuses_a_bad_description(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"stage": "x"}')
    code, _, err = run(capsys, "stage", "job.json")
    assert code == 2
    assert "run_id: Field required" in err


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.44, "0.4 s"), (12.4, "12 s"), (185, "3 min 5 s"), (7800, "2 h 10 min"), (59.6, "1 min 0 s")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


def test_the_surface_is_frozen() -> None:
    """A new command or option is a decision: it is added here on purpose."""
    actions = build_parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    surface = {
        name: sorted(option for action in parser._actions for option in action.option_strings if option != "-h")
        for name, parser in actions.items()
    }
    recipe = ["--help", "--json", "--seed", "--set"]
    assert surface == {
        "run": sorted([*recipe, "--cheapest", "--containers", "--engine", "--jobs", "--new", "--store", "--watch"]),
        "fork": sorted(
            [
                *("--at", "--containers", "--engine", "--help", "--jobs", "--json", "--name", "--new", "--recipe"),
                *("--set", "--store"),
            ]
        ),
        "move": sorted(
            [
                "--cheapest",
                "--containers",
                "--help",
                "--jobs",
                "--json",
                "--recipe",
                "--set",
                "--store",
                "--to",
                "--wait",
            ],
        ),
        "rebuild": sorted(
            [
                *("--containers", "--engine", "--everything", "--help", "--jobs", "--json", "--key", "--new"),
                *("--output", "--plan", "--recipe", "--store", "--without"),
            ]
        ),
        "statement": ["--help", "--json", "--key", "--store"],
        "plan": sorted([*recipe, "--cheapest", "--engine", "--store"]),
        "compile": ["--engine", "--help", "--output", "--seed", "--set", "--store", "-o"],
        "audit-reward": sorted([*recipe, "--jobs", "--new", "--stage", "--store"]),
        "schedule": sorted([*recipe, "--delete", "--engine", "--off", "--store"]),
        "validate": recipe,
        "list": ["--help", "--json", "--store"],
        "show": ["--help", "--json", "--store"],
        "new": ["--from", "--help", "--json"],
        "try": sorted(
            [
                *("--answer", "--completions", "--data", "--final-answer", "--help", "--json", "--limit", "--prompt"),
                "--with",
            ]
        ),
        "compare": ["--help", "--json", "--store"],
        "bisect": sorted(
            [
                *("--help", "--jobs", "--json", "--max-halves", "--max-seeds", "--metric", "--output", "--plan"),
                *("--seeds", "--store"),
            ]
        ),
        "lineage": ["--descendants", "--help", "--json", "--store"],
        "trace": ["--help", "--json", "--limit", "--right", "--store"],
        "report": ["--help", "--json", "--output", "--store"],
        "samples": sorted(
            [
                *("--domain", "--failed", "--full", "--help", "--json", "--limit", "--prompt-id", "--right"),
                *("--search", "--sort", "--step", "--store", "--wrong"),
            ]
        ),
        "replay": ["--from-start", "--help", "--json", "--step", "--store"],
        "rescore": sorted(
            ["--combine", "--help", "--html", "--in", "--json", "--reward", "--steps", "--store", "--verifier"],
        ),
        "chat": sorted(
            ["--help", "--max-tokens", "--prompt", "--seed", "--store", "--system", "--temperature"],
        ),
        "export": ["--adapter", "--gguf", "--help", "--json", "--store", "--unchecked"],
        "approve": ["--help", "--reject", "--store"],
        "gc": sorted(
            [
                *("--delete", "--grace", "--help", "--json", "--keep-last", "--older-than", "--store"),
                *("--undelivered", "--without-mlflow"),
            ]
        ),
        "pin": ["--help", "--json", "--note", "--store"],
        "unpin": ["--help", "--json", "--store"],
        "verify": ["--help", "--json", "--repair", "--store"],
        "methods": ["--help", "--html", "--json", "--store"],
        "diff": ["--help", "--json"],
        "reproduce": [
            "--all",
            "--check",
            "--confirm",
            "--help",
            "--jobs",
            "--json",
            "--new",
            "--record",
            "--seeds",
            "--set",
            "--store",
            "--tune",
        ],
        "ablate": ["--help", "--jobs", "--json", "--new", "--seeds", "--set", "--store"],
        "components": ["--help", "--json"],
        "operators": ["--help", "--json"],
        "stage": ["--help"],
        "ui": ["--help", "--port", "--store"],
        "docs": ["--build", "--help", "--port"],
        "airflow": ["--help"],
    }

"""A run that asks endpoints: killed, or left by its server, it goes on, asks nothing twice and keeps no key."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stages.rl_stage import PARAMS, item, make_model
from tests.support.command_line import Project, caches, digests
from tests.support.model_server import KEY, ModelServer, kills, model_server, says

POOLS = """
cpu: {{cpus: 1, memory_gib: 4}}
endpoints:
  scorer: {{base_url: "{url}", model: s, api: completions, {common}}}
  talker: {{base_url: "{url}", model: t, {common}}}
"""
COMMON = "key_env: A_KEY, concurrency: 1, retries: 1, max_wait_seconds: 0.01"
SLOTS = {"rewards": ["verifier", "likelihood_under"], "guidance": {"name": "teachers", "max_pass_rate": 0.5}}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and prompts that any letter answers, and a recipe that asks two endpoints and a model about them."""
    folder = tmp_path_factory.mktemp("files")
    make_model(folder / "model")
    (folder / "rows.jsonl").write_text("".join(json.dumps(item(index)) + "\n" for index in range(8)))
    stage = {
        "uses": "rl",
        "in": {
            "model": str(folder / "model"),
            "dataset": str(folder / "rows.jsonl"),
            "scorers": ["endpoint:scorer", str(folder / "model")],
            "teachers": "endpoint:talker",
        },
        "with": {**PARAMS, **SLOTS, "method": "grpo", "steps": 4},
    }
    recipe = {"name": "ask", "defaults": {"retries": 0}, "stages": {"rl": stage}}
    (folder / "ask.yaml").write_text(json.dumps(recipe))
    return folder


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as served:
        served.write = lambda body: "xyz"[body["seed"] % 3] + f" {KEY}"
        yield served


def project(folder: Path, server: ModelServer) -> Project:
    folder.mkdir(exist_ok=True)
    (folder / "pools.yaml").write_text(POOLS.format(url=server.url, common=COMMON))
    return Project(folder, str(folder / "store"), {"POSTTRAIN_POOLS": str(folder / "pools.yaml"), "A_KEY": KEY})


def holding_the_key(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_killed_runs_ask_nothing_twice_and_end_in_the_same_bytes(
    files: Path, server: ModelServer, tmp_path: Path
) -> None:
    recipe = files / "ask.yaml"
    straight = project(tmp_path / "straight", server)
    shown = straight.run(recipe=recipe)
    wanted = dict(server.asked)
    assert len(wanted) > 20 and set(wanted.values()) == {1}
    assert {body.split()[0] for body in wanted} == {"/v1/completions", "/v1/chat/completions"}

    killed = project(tmp_path / "killed", server)
    for before in (2, len(wanted) // 2):
        server.misbehave = [None] * before
        process = killed.start("run", str(recipe), "--json")
        server.misbehave.append(kills(process))
        process.communicate(timeout=120)
        assert process.returncode == -signal.SIGKILL
    again = killed.run(recipe=recipe)
    assert digests(again) == digests(shown) and set(caches(again).values()) == {"miss"}
    assert dict(server.asked) == dict.fromkeys(wanted, 2), "once by each project"

    metrics = Path(again["stages"][0]["outputs"]["metrics"]["uri"])
    answers = [json.loads(line) for line in (metrics / "answers.jsonl").read_text().splitlines()]
    assert len(answers) == len(wanted) and {row["endpoint"]["name"] for row in answers} == {"scorer", "talker"}
    assert "[key]" in (metrics / "answers.jsonl").read_text()
    history = [json.loads(line) for line in (metrics / "history.jsonl").read_text().splitlines()]
    assert all(row["likelihood_under"] < 0 and row["likelihood_under_unscored"] == 0 for row in history)
    assert any(row["taught"] for row in history)

    num = server.num_requests
    assert caches(killed.run(recipe=recipe)) == {"rl": "hit"} and server.num_requests == num, "a rerun is cached"
    assert not list((Path(killed.store) / "answers").rglob("*.json")), "what a done job was told is in its output"
    assert holding_the_key(tmp_path) == []
    assert KEY not in killed.call("plan", str(recipe))


def test_a_server_that_dies_stops_the_run_in_one_line_and_the_same_command_goes_on(
    files: Path, server: ModelServer, tmp_path: Path
) -> None:
    recipe, here = files / "ask.yaml", project(tmp_path / "here", server)
    server.misbehave, server.always = [None] * 5, says(503, {"error": {"message": f"gone, {KEY}"}})
    process = here.start("run", str(recipe))
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1 and "Traceback" not in out + err and KEY not in out + err
    text = " ".join((out + err).split())
    assert "is down (503 gone, [key]; 2 tries)" in text and "the same command goes on" in text
    server.always = None
    shown: dict[str, Any] = here.run(recipe=recipe)
    assert shown["status"] == "succeeded" and set(server.asked.values()) == {1}
    assert holding_the_key(tmp_path) == []


def test_without_its_key_a_stage_says_which_variable(files: Path, server: ModelServer, tmp_path: Path) -> None:
    here = project(tmp_path / "here", server)
    del here.environment["A_KEY"]
    process = here.start("run", str(files / "ask.yaml"))
    out, err = process.communicate(timeout=120)
    assert process.returncode != 0 and server.num_requests == 0
    assert "needs its key in the variable A_KEY" in " ".join((out + err).split())

"""Writers at an endpoint, from weights and of a program: killed between any two chunks, a stage asks nothing twice."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stages.rl_stage import item, make_model
from tests.support.command_line import Project, caches, digests
from tests.support.model_server import KEY, ModelServer, kills, model_server, says

POOLS = """
cpu: {{cpus: 1, memory_gib: 4}}
endpoints:
  talker: {{base_url: "{url}", model: t, key_env: A_KEY, concurrency: 1, retries: 1, max_wait_seconds: 0.01}}
"""
CHUNKS, ROWS, SAMPLES = 4, 8, 2


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prompts that any letter answers, a model, and a recipe that asks it and an endpoint."""
    folder = tmp_path_factory.mktemp("files")
    make_model(folder / "model")
    (folder / "rows.jsonl").write_text("".join(json.dumps(item(index)) + "\n" for index in range(ROWS)))
    stage = {
        "uses": "synthesize",
        "in": {"dataset": str(folder / "rows.jsonl"), "teachers": ["endpoint:talker", str(folder / "model")]},
        "with": {
            "generator": {"name": "candidates", "num_samples": SAMPLES, "max_new_tokens": 4},
            "programs": [{"name": "careless", "error_rate": 0.5}],
            "chunk": ROWS // CHUNKS,
            "verifiability": "off",
        },
    }
    (folder / "made.yaml").write_text(json.dumps({"name": "made", "stages": {"made": stage}}))
    return folder


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as served:
        served.write = lambda body: "xyz"[body["seed"] % 3] + f" \x1b[31m{KEY}"
        yield served


def project(folder: Path, server: ModelServer) -> Project:
    folder.mkdir(exist_ok=True)
    (folder / "pools.yaml").write_text(POOLS.format(url=server.url))
    return Project(folder, str(folder / "store"), {"POSTTRAIN_POOLS": str(folder / "pools.yaml"), "A_KEY": KEY})


@pytest.mark.slow  # seven starts of a run
def test_kills_between_all_chunks_change_no_byte_and_ask_nothing_twice(
    files: Path, server: ModelServer, tmp_path: Path
) -> None:
    recipe = files / "made.yaml"
    straight = project(tmp_path / "straight", server)
    shown = straight.run(recipe=recipe)
    wanted = dict(server.asked)
    assert len(wanted) == ROWS * SAMPLES and set(wanted.values()) == {1}

    killed = project(tmp_path / "killed", server)
    for _ in range(CHUNKS - 1):  # at the first request of each chunk but the first, so between two chunks
        server.misbehave = [None] * (ROWS * SAMPLES // CHUNKS)
        process = killed.start("run", str(recipe), "--json")
        server.misbehave.append(kills(process))
        process.communicate(timeout=300)
        assert process.returncode == -signal.SIGKILL
    again = killed.run(recipe=recipe)
    assert digests(again) == digests(shown) and set(caches(again).values()) == {"miss"}
    assert dict(server.asked) == dict.fromkeys(wanted, 2), "once by each project"

    outputs = again["stages"][0]["outputs"]
    answers = (Path(outputs["metrics"]["uri"]) / "answers.jsonl").read_text().splitlines()
    assert len(answers) == len(wanted)
    card = json.loads((Path(outputs["dataset"]["uri"]) / "card.json").read_text())
    assert card["num_drawn"] == 3 * ROWS * SAMPLES == card["num_rows"] + sum(card["drops"].values())
    assert set(card["qualities"]) >= {"careless"}
    assert "\x1b" not in killed.call("show", "latest")
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    num = server.num_requests
    assert caches(killed.run(recipe=recipe)) == {"made": "hit"} and server.num_requests == num, "a rerun is cached"


def test_an_endpoint_that_is_down_is_one_line_and_the_same_command_goes_on(
    files: Path, server: ModelServer, tmp_path: Path
) -> None:
    recipe, here = files / "made.yaml", project(tmp_path / "here", server)
    server.misbehave, server.always = [None] * 6, says(503, {"error": {"message": f"gone, {KEY}"}})
    process = here.start("run", str(recipe))
    out, err = process.communicate(timeout=300)
    assert process.returncode == 1 and "Traceback" not in out + err and KEY not in out + err
    assert "is down (503 gone, [key]; 2 tries)" in " ".join((out + err).split())
    server.always = None
    assert here.run(recipe=recipe)["status"] == "succeeded" and set(server.asked.values()) == {1}


def test_a_writer_that_is_missing_or_not_read_is_told_with_its_line(
    files: Path, server: ModelServer, tmp_path: Path
) -> None:
    here = project(tmp_path / "here", server)
    rows = str(files / "rows.jsonl")
    for given, settings, says_ in (
        ({}, {"generator": "rejection"}, "generator 'rejection' asks the input 'teachers', which is not connected"),
        ({"judges": "endpoint:talker"}, {"generator": "rejection", "programs": ["gold"]}, "read by nothing"),
        ({}, {"generator": "skill_mix", "programs": ["gold"]}, "skills"),
    ):
        stage = {"uses": "synthesize", "in": {"dataset": rows, **given}, "with": settings}
        path = tmp_path / "wrong.yaml"
        path.write_text(json.dumps({"name": "wrong", "stages": {"made": stage}}))
        process = here.start("validate", str(path))
        out, err = process.communicate(timeout=120)
        assert process.returncode == 2 and "Traceback" not in out + err
        assert says_ in " ".join((out + err).split()) and "wrong.yaml:1:" in out + err


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["expert-iteration", "star", "rest"])
def test_rounds_teach_a_model_sums_from_its_own_right_responses(recipe: str, tmp_path: Path) -> None:
    shown = Project(tmp_path, str(tmp_path / "store")).run("--jobs", "1", recipe=recipe)
    metrics = {stage["name"]: stage["metrics"] for stage in shown["stages"]}
    assert metrics["loop-3-measure"]["pass_at_1_sums"] > metrics["eval-start"]["pass_at_1_sums"] + 0.02
    assert all(found["num_rows"] > 0 for name, found in metrics.items() if name.endswith("-right"))

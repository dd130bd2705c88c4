"""Reading runs back: lists, prefixes, the JSON for scripts, and comparisons."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError, UnknownName
from components.contract.job import Job
from components.runtime.ledger.ledger import load_run
from components.runtime.ledger.records import approval_key, asked_key, failure_key, run_key, stage_entry, stage_key
from components.runtime.ledger.run_list import list_runs
from components.runtime.ledger.shown import show_json
from components.runtime.lineage.graph.compare import compare_runs
from components.runtime.lineage.graph.tables import comparison_tables
from components.runtime.store import Store
from tests.runtime.lineage.conftest import Story, tell


def test_a_run_as_scripts_read_it(store: Store) -> None:
    story = tell(store, "quick-1")
    told = json.loads(json.dumps(show_json(load_run(store, "quick"))))
    first = ["run_id", "recipe", "status", "started", "seconds", "stages"]
    assert list(told) == [*first, "ended", "engine", "seed", "params", "overrides", "command", "trigger"]
    assert (told["engine"], told["seed"], told["command"]) == ("local", 7, "posttrain run quick")
    assert (told["run_id"], told["recipe"], told["status"], told["seconds"]) == ("quick-1", "quick", "succeeded", 51.0)
    assert [stage["name"] for stage in told["stages"]] == ["base", "prompts", "sft", "rl", "evaluate"]
    rl = told["stages"][3]
    first = ["name", "component", "status", "cache", "fingerprint", "seconds", "metrics", "outputs"]
    assert list(rl) == [*first, "error", "reason", "params", "seed", "labels", "approval", "alarms", "kept"]
    assert (rl["params"]["method"], rl["seed"], rl["approval"]) == ("grpo", 7, None)
    assert (rl["status"], rl["cache"], rl["seconds"], rl["metrics"]) == ("done", "miss", 10.0, {"pass@1": 0.5})
    digest = story.made["rl.model"][1]
    assert rl["outputs"]["model"] == {"type": "Model", "digest": digest, "uri": store.artifact_uri(digest)}


def test_stages_that_have_not_ended_are_pending_or_failed(store: Store) -> None:
    story = Story(store, "quick-1")
    story.begin("base", "sft", "rl")
    story.stage("base", {"model": ("Model", "base")})
    failure = {"run_id": "quick-1", "stage": "sft", "fingerprint": "f" * 64, "error": "no memory", "time": 1.0}
    store.put(failure_key("quick-1", "sft"), failure)
    run = load_run(store, "quick-1")
    assert [stage["status"] for stage in show_json(run)["stages"]] == ["done", "failed", "pending"]
    assert run.status == "unfinished" and run.failures["sft"]["error"] == "no memory"


def test_what_has_not_ended_says_why(store: Store) -> None:
    story = Story(store, "quick-1")
    names = ("base", "asked", "after", "gated", "blocked", "deeper", "rejected", "extra")
    after = {"after": ["asked"], "blocked": ["gated"], "deeper": ["blocked"]}
    story.begin(*names)
    entry = store.get(run_key("quick-1"))
    for stage in entry["stages"]:
        stage |= {"after": after.get(stage["name"], []), "params": {"of": stage["name"]}, "seed": 3}
        stage["needs_approval"] = stage["name"] in ("asked", "rejected")
    store.put(run_key("quick-1"), entry, overwrite=True)
    for name in ("asked", "rejected"):
        store.put(asked_key("quick-1", name), {"message": "Go on?", "time": 1.0})
    store.put(approval_key("quick-1", "rejected"), {"approved": False, "by": "ann", "time": 2.0})
    gate = {"run_id": "quick-1", "stage": "gated", "fingerprint": "f" * 64, "error": "gate 'x > 1' does not hold"}
    store.put(failure_key("quick-1", "gated"), gate | {"metrics": {"x": 0.5}, "time": 1.0})
    reason = "its input a comes from b, which was skipped"
    store.put(stage_key("quick-1", "extra"), skipped(story.job("extra"), reason))
    told = {stage["name"]: stage for stage in show_json(load_run(store, "quick-1"))["stages"]}
    assert {name: stage["status"] for name, stage in told.items()} == {
        "base": "pending",
        "asked": "waiting",
        "after": "pending",
        "gated": "failed",
        "blocked": "blocked",
        "deeper": "blocked",
        "rejected": "failed",
        "extra": "skipped",
    }
    assert (told["gated"]["error"], told["gated"]["metrics"]) == ("gate 'x > 1' does not hold", {"x": 0.5})
    assert (told["extra"]["reason"], told["extra"]["error"]) == (reason, None)
    assert (told["after"]["params"], told["after"]["seed"]) == ({"of": "after"}, 3)
    asked = {"message": "Go on?", "asked": "1970-01-01T00:00:01.000+00:00"}
    of_old = dict.fromkeys(("engine", "inputs", "seen"))  # records from before these were kept
    assert told["asked"]["approval"] == {**asked, "approved": None, "by": None, "decided": None, **of_old}
    decided = {"approved": False, "by": "ann", "decided": "1970-01-01T00:00:02.000+00:00"}
    assert told["rejected"]["approval"] == asked | decided | of_old


def skipped(job: Job, reason: str) -> dict[str, Any]:
    """Return the ledger entry of a stage that was skipped."""
    return stage_entry(job, status="skipped", cache="none", started=1.0, ended=1.0, inputs={}, error=reason)


def test_one_damaged_record_does_not_hide_the_others(store: Store) -> None:
    tell(store, "quick-1")
    tell(store, "quick-2")
    store.blobs.write("ledger/quick-1/stages/sft.json", b"{}")
    run = load_run(store, "quick-1")
    assert [stage["status"] for stage in show_json(run)["stages"]] == ["done", "done", "unreadable", "done", "done"]
    assert list(run.damaged) == ["sft"]
    assert "posttrain verify --repair" in run.damaged["sft"] and "made anew" not in run.damaged["sft"]
    store.blobs.write("ledger/quick-1/run.json", b"{}")
    store.blobs.write("ledger/quick-1/end.json", b"{}")
    run = load_run(store, "quick-1")
    assert (run.status, set(run.damaged), len(run.stages)) == ("unreadable", {"", "sft"}, 4)
    assert [(listed["run_id"], listed["status"]) for listed in list_runs(store)] == [
        ("quick-2", "succeeded"),
        ("quick-1", "unreadable"),
    ]


def test_runs_are_listed_newest_first(store: Store) -> None:
    tell(store, "quick-1")
    later = Story(store, "quick-2")
    later.clock += 100_000
    later.begin("base")
    runs = list_runs(store)
    assert [(run["run_id"], run["status"], run["ended_stages"], run["stages"]) for run in runs] == [
        ("quick-2", "unfinished", 0, 1),
        ("quick-1", "succeeded", 5, 5),
    ]


def test_wrong_run_names_say_what_was_probably_meant(store: Store) -> None:
    tell(store, "quick-1")
    tell(store, "quick-2")
    with pytest.raises(InputError, match="is ambiguous: quick-1, quick-2"):
        load_run(store, "quick")
    with pytest.raises(UnknownName, match="did you mean 'quick-1'"):
        load_run(store, "quik-1")


def test_comparison_shows_what_differs_and_by_how_much(store: Store) -> None:
    for run_id, code, rate, value in (("a", "1", 1e-3, 0.5), ("b", "2", 2e-3, 0.75)):
        story = Story(store, run_id, seed=7)
        story.begin("rl", "evaluate")
        params = {"optimizer": {"rate": rate, "name": "muon"}}
        story.stage("rl", {"model": ("Model", run_id)}, params=params, code=code)
        folder = story.store.blobs.root.parent / f"metrics-{run_id}"
        folder.mkdir()
        measured = {"pass@1": {"value": value, "low": value - 0.1, "high": value + 0.1, "n": 64}}
        (folder / "metrics.json").write_text(json.dumps(measured))
        digest = store.commit(ArtifactType.METRICS, folder, {}).digest
        story.stage("evaluate", {}, metrics={"pass@1": value})
        key = f"ledger/{run_id}/stages/evaluate.json"
        output = {"type": "Metrics", "digest": digest, "uri": "", "size": 0, "metadata": {}}
        store.put(key, {**store.get(key), "outputs": {"metrics": output}}, overwrite=True)
    only_b = Story(store, "b")
    only_b.stage("extra", {})

    found = compare_runs(store, "a", "b")
    told = json.loads(json.dumps(found.to_json()))
    assert told["runs"] == ["a", "b"]
    assert told["params"] == [{"stage": "rl", "name": "optimizer.rate", "a": 1e-3, "b": 2e-3}]
    assert told["code"] == [{"stage": "rl", "name": "components/rl/run.py", "a": "1" * 64, "b": "2" * 64}]
    (row,) = told["metrics"]
    assert (row["stage"], row["name"], row["difference"]) == ("evaluate", "pass@1", 0.25)
    assert row["a"] == {"value": 0.5, "low": 0.4, "high": 0.6, "n": 64}
    assert told["stages"] == [{"stage": "extra", "name": "status", "a": None, "b": "done"}]

    console = Console(width=150, record=True, file=io.StringIO())
    console.print(comparison_tables(found))
    text = console.export_text()
    assert "+0.25" in text and "0.5 (0.4 to 0.6)" in text and "optimizer.rate" in text


def test_what_did_the_work_is_compared_within_one_epoch(store: Store) -> None:
    """Constants of a preset and versions of libraries too; older records have neither, and hash files otherwise."""
    said = {
        "a": {
            "epoch": 2,
            "operators": [{"slot": "advantage", "name": "x", "config": {"eps": 1}}],
            "code": {"f.py": "1"},
        },
        "b": {"epoch": 2, "packages": {"sympy": "1.14"}, "code": {"f.py": "1"}},
        "old": {"epoch": 1, "code": {"f.py": "2"}},
    }
    for run_id, parts in said.items():
        story = Story(store, run_id, seed=7)
        story.begin("rl")
        story.stage("rl", {}, code=run_id)
        key = f"actions/{store.get(f'ledger/{run_id}/stages/rl.json')['fingerprint']}.json"
        action = store.get(key)
        store.put(key, {**action, "parts": {**action["parts"], **parts}}, overwrite=True)

    def told(first: str, second: str) -> dict[str, tuple[object, object]]:
        return {row["name"]: (row["a"], row["b"]) for row in compare_runs(store, first, second).code}

    assert told("a", "b") == {"advantage x.eps": (1, None), "package sympy": (None, "1.14")}
    assert told("a", "old") == {}


def test_equal_runs_have_only_equal_metrics(store: Store) -> None:
    tell(store, "a")
    tell(store, "b", cache="hit")
    found = compare_runs(store, "a", "b")
    assert (found.params, found.code, found.stages) == ([], [], [])
    assert {row["difference"] for row in found.metrics} == {0.0}
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(comparison_tables(found))
    assert console.export_text().strip() == "The runs do not differ."

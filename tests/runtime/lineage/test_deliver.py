"""Delivery to a real MLflow (SQLite): what arrives, and that nothing ever arrives twice."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.runtime.lineage.delivery.deliver import deliver, delivery_state, sync
from components.runtime.lineage.registry import register_model
from components.runtime.lineage.spool import spooled_keys
from components.runtime.store import Store, open_store
from components.runtime.store.directory import DirectoryBlobs
from tests.runtime.lineage.conftest import (
    FORK,
    Story,
    client_of,
    deliver_and_die,
    forget,
    in_child,
    rows_of,
    tell,
    uri_of,
)

Contents = Callable[[Path], dict[str, list[tuple[Any, ...]]]]


def test_a_run_arrives_whole(store: Store, database: Path) -> None:
    story = tell(store, "quick-1")
    result = deliver(store, "quick-1", uri_of(database))
    assert (result.pending, result.refused, result.problem) == (0, {}, None)
    assert result.delivered == len(spooled_keys(store, "quick-1"))

    client = client_of(database)
    experiment = client.get_experiment_by_name("quick")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    parent = runs.pop("quick-1")
    assert set(runs) == {"base", "prompts", "sft", "rl", "evaluate"}
    assert {run.data.tags["mlflow.parentRunId"] for run in runs.values()} == {parent.info.run_id}
    assert {run.info.status for run in [parent, *runs.values()]} == {"FINISHED"}
    assert parent.data.params == {"rl_steps": "80", "optimizer.name": "muon"}
    code = {"version": "0123abcd" * 5, "dirty": "false", "lock": "ab" * 32}
    wanted = {f"posttrain.code.{name}": value for name, value in code.items()}
    assert wanted.items() <= parent.data.tags.items()
    assert wanted.items() <= runs["rl"].data.tags.items()
    assert runs["rl"].data.tags["posttrain.seed"] == "7"

    rl = runs["rl"]
    digest = story.made["prompts.prompts"][1]
    dataset = rl.inputs.dataset_inputs[0]
    assert (dataset.dataset.name, dataset.dataset.digest) == ("prompts.prompts", digest[:36])
    assert digest in dataset.dataset.source
    assert {tag.key: tag.value for tag in dataset.tags}["mlflow.data.context"] == "dataset"
    history = client.get_metric_history(rl.info.run_id, "train/m1")
    assert [(row.step, row.value) for row in history] == [(step, step + 1 / 8) for step in range(1, 31)]
    assert rl.data.metrics["pass_at_1"] == 0.5

    table = client.load_table(experiment.experiment_id, "samples.json", [rl.info.run_id])
    assert list(table.columns) == ["step", "reward", "outcome", "response", "prompt_id"]
    assert list(table["response"]) == ["six", "five", "four"]
    assert table["reward"].isna().tolist() == [False, True, False]

    model = client.search_logged_models([experiment.experiment_id], "name = 'rl-model'")[0]
    assert model.tags["posttrain.digest"] == story.made["rl.model"][1]
    assert model.source_run_id == rl.info.run_id
    measured = {(metric.run_id, metric.value, metric.dataset_name) for metric in model.metrics}
    assert measured == {
        (rl.info.run_id, 0.5, "prompts.prompts"),
        (runs["evaluate"].info.run_id, 0.61, "prompts.prompts"),
    }
    evaluated = client.get_run(runs["evaluate"].info.run_id)  # a search leaves model inputs out
    assert [item.model_id for item in evaluated.inputs.model_inputs] == [model.model_id]
    version = client.get_model_version_by_alias("tiny", "candidate")
    assert version.source == f"models:/{model.model_id}"
    artifacts = {item.path for item in client.list_artifacts(parent.info.run_id)}
    assert artifacts == {"recipe.yaml", "report"}


def test_kills_at_every_kind_of_write_leave_nothing_twice(
    store: Store, tmp_path: Path, empty_database: Path, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.runtime.lineage.delivery.delivery.SAVE_SECONDS", 1e9)  # no help from the cursor
    tell(store, "quick-1", rows=4)
    straight = Path(shutil.copy(empty_database, tmp_path / "straight.db"))
    assert in_child(lambda: deliver(store, "quick-1", uri_of(straight)) and None) == 0
    killed = Path(shutil.copy(empty_database, tmp_path / "killed.db"))
    kills = 0
    while deliver_and_die(store, "quick-1", uri_of(killed), writes=2 * kills + 1, before=bool(kills % 2)):
        kills += 1
    assert kills > 12
    assert in_child(lambda: deliver(store, "quick-1", uri_of(killed)) and None) == 0
    assert contents(killed) == contents(straight)
    assert delivery_state(store, "quick-1", uri_of(killed)).pending == 0


def test_delivering_any_part_again_changes_nothing(store: Store, database: Path, contents: Contents) -> None:
    tell(store, "quick-1", rows=4)
    deliver(store, "quick-1", uri_of(database))
    before, keys = contents(database), spooled_keys(store, "quick-1")

    @given(st.sets(st.sampled_from(keys)))
    @settings(max_examples=6, deadline=None)
    def deliver_again(again: set[str]) -> None:
        forget(store, "quick-1", again)
        assert deliver(store, "quick-1", uri_of(database)).delivered == len(again)
        assert contents(database) == before

    deliver_again()


def test_it_does_not_matter_how_the_stream_is_cut(tmp_path: Path, empty_database: Path, contents: Contents) -> None:
    told = Recording(DirectoryBlobs(tmp_path / "told" / "store"))
    tell(told, "quick-1", rows=4)
    at_once = Path(shutil.copy(empty_database, tmp_path / "at_once.db"))
    deliver(told, "quick-1", uri_of(at_once))

    @given(st.sets(st.integers(1, len(told.put_keys) - 1), min_size=1, max_size=4))
    @settings(max_examples=4, deadline=None)
    def deliver_in_parts(cuts: set[int]) -> None:
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            streamed = Path(shutil.copy(empty_database, Path(folder) / "streamed.db"))
            shutil.copytree(tmp_path / "told" / "store" / "objects", Path(folder) / "store" / "objects")
            arriving = open_store(f"{folder}/store")
            for index, key in enumerate(told.put_keys):
                if index in cuts:
                    deliver(arriving, "quick-1", uri_of(streamed))
                arriving.put(key, told.get(key))
            deliver(arriving, "quick-1", uri_of(streamed))
            assert str(contents(streamed)).replace(f"{folder}/store/", f"{told.uri}/") == str(contents(at_once))

    deliver_in_parts()


class Recording(Store):
    """A store that remembers in which order events were put."""

    def __init__(self, blobs: DirectoryBlobs) -> None:
        super().__init__(blobs)
        self.put_keys: list[str] = []

    def put(self, key: str, value: dict[str, Any], *, overwrite: bool = False) -> bool:
        if key.startswith("spool/"):
            self.put_keys.append(key)
        return super().put(key, value, overwrite=overwrite)


def test_telling_a_run_again_adds_no_event(store: Store) -> None:
    tell(store, "quick-1")
    before = {key: store.get(key) for key in spooled_keys(store, "quick-1")}
    tell(store, "quick-1")
    assert {key: store.get(key) for key in spooled_keys(store, "quick-1")} == before


def test_two_deliverers_at_once_share_nothing(
    store: Store, tmp_path: Path, empty_database: Path, contents: Contents
) -> None:
    tell(store, "quick-1")
    straight = Path(shutil.copy(empty_database, tmp_path / "straight.db"))
    shared = Path(shutil.copy(empty_database, tmp_path / "shared.db"))
    processes = [FORK.Process(target=deliver, args=(store, "quick-1", uri_of(shared))) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    deliver(store, "quick-1", uri_of(shared))
    deliver(store, "quick-1", uri_of(straight))
    assert contents(shared) == contents(straight)


def test_who_comes_second_is_told_who_is_first(store: Store, database: Path) -> None:
    tell(store, "quick-1")
    with store.lock("lineage-quick-1", wait_seconds=0):
        result = deliver(store, "quick-1", uri_of(database))
    assert result.delivered == 0 and result.pending == len(spooled_keys(store, "quick-1"))
    assert result.problem and str(os.getpid()) in result.problem


def test_cache_hits_name_their_producer_and_repeat_no_model(store: Store, database: Path) -> None:
    tell(store, "quick-1")
    tell(store, "quick-2", cache="hit", rows=0)
    results = sync(store, uri_of(database))
    assert set(results) == {"quick-1", "quick-2"}
    assert rows_of(database, "select count(*) from logged_models") == [(4,)]
    hits = rows_of(
        database,
        "select r.name, t.value from runs r join tags t using (run_uuid) join tags c using (run_uuid)"
        " where t.key = 'posttrain.produced_by.run_id' and c.key = 'posttrain.cache' and c.value = 'hit'",
    )
    assert sorted(hits) == [(name, "quick-1") for name in ("base", "evaluate", "prompts", "rl", "sft")]
    curves = "select count(*) from metrics m join tags t using (run_uuid) where t.key = 'posttrain.cache'"
    assert rows_of(database, f"{curves} and t.value = 'hit' and m.key like 'train/%'") == [(0,)]
    assert sync(store, uri_of(database)) == {}


def test_changed_code_ends_the_try_that_it_supersedes(store: Store, database: Path) -> None:
    story = Story(store, "quick-1")
    story.begin("rl")
    job = story.job("rl")
    story.spool.stage_started(job, story.mark(job, {}, code="1"), {})
    deliver(store, "quick-1", uri_of(database))
    assert rows_of(database, "select status from runs where name = 'rl'") == [("RUNNING",)]
    story.clock += 10_000_000_000  # the made-up clock of a finished stage is behind the real one of a started one
    story.stage("rl", {"model": ("Model", "rl")}, code="2")
    deliver(store, "quick-1", uri_of(database))
    assert sorted(rows_of(database, "select status from runs where name = 'rl'")) == [("FINISHED",), ("KILLED",)]


def test_a_failed_try_and_a_stopped_run_end_well_when_resumed(store: Store, database: Path) -> None:
    story = Story(store, "quick-1")
    story.begin("rl")
    job = story.job("rl")
    story.spool.stage_started(job, story.mark(job, {}), {})
    story.spool.stage_failed("rl", story.mark(job, {}).digest, "out of memory", at=story.clock)
    story.end("failed")
    deliver(store, "quick-1", uri_of(database))
    statuses = "select name, status from runs order by name"
    assert rows_of(database, statuses) == [("quick-1", "FAILED"), ("rl", "FAILED")]
    error = "select value from tags where key = 'posttrain.last_error'"
    assert rows_of(database, error) == [("out of memory",)]
    story.spool.run_resumed(at=story.clock + 1)
    deliver(store, "quick-1", uri_of(database))
    assert rows_of(database, statuses)[0] == ("quick-1", "RUNNING")
    story.clock += 2
    story.stage("rl", {"model": ("Model", "rl")})
    story.end()
    deliver(store, "quick-1", uri_of(database))
    assert rows_of(database, statuses) == [("quick-1", "FINISHED"), ("rl", "FINISHED")]


def test_damaged_and_refused_events_do_not_hold_up_the_others(store: Store, database: Path) -> None:
    tell(store, "quick-1")
    chunk = next(key for key in spooled_keys(store, "quick-1") if "/sft/" in key and "/rows-" in key)
    path = Path(store.uri) / chunk
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"m1", b"m9"))
    report = next(key for key in spooled_keys(store, "quick-1") if "/reports/" in key)
    store.delete(store.get(report)["digest"])
    result = deliver(store, "quick-1", uri_of(database))
    assert set(result.refused) == {chunk, report}
    assert "SHA-256" in result.refused[chunk]
    assert result.pending == 0 and result.delivered == len(spooled_keys(store, "quick-1")) - 2
    assert set(sync(store, uri_of(database))["quick-1"].refused) == {chunk, report}


def test_a_lost_database_is_filled_again(
    store: Store, tmp_path: Path, empty_database: Path, contents: Contents
) -> None:
    tell(store, "quick-1", rows=4)
    database = Path(shutil.copy(empty_database, tmp_path / "mlflow.db"))

    def deliver_here() -> None:
        assert deliver(store, "quick-1", uri_of(database)).delivered == len(spooled_keys(store, "quick-1"))

    assert in_child(deliver_here) == 0
    before = contents(database)
    database.unlink()
    shutil.copy(empty_database, database)
    story = Story(store, "quick-1")
    story.spool.stage_failed("rl", None, "one more event", at=0)
    assert in_child(lambda: deliver(store, "quick-1", uri_of(database)) and None) == 0
    after = contents(database)
    assert [len(after[kind]) - len(before[kind]) for kind in ("runs", "metrics", "models")] == [1, 0, 0]


def test_a_second_run_left_by_a_lost_answer_is_removed(store: Store, database: Path) -> None:
    tell(store, "quick-1", rows=4)
    deliver(store, "quick-1", uri_of(database))
    client = client_of(database)
    rl = client.search_runs(["1"], "attributes.run_name = 'rl'")[0]
    client.create_run("1", rl.info.start_time, {k: v for k, v in rl.data.tags.items() if "." in k}, "rl")
    forget(store, "quick-1", spooled_keys(store, "quick-1")[:1])
    deliver(store, "quick-1", uri_of(database))
    alive = client.search_runs(["1"], "attributes.run_name = 'rl'")
    assert len(alive) == 1 and alive[0].info.status == "FINISHED"
    assert len(client.get_metric_history(alive[0].info.run_id, "train/m0")) == 4


def test_an_alias_goes_to_the_newest_version_in_whatever_order_runs_arrive(store: Store, database: Path) -> None:
    for run_id in ("quick-1", "quick-2"):
        tell(store, run_id, salt=run_id)
    for run_id in ("quick-2", "quick-1"):
        deliver(store, run_id, uri_of(database))
    client = client_of(database)
    assert client.get_model_version_by_alias("tiny", "candidate").tags["posttrain.run_id"] == "quick-2"


def test_foreign_characters_in_names_arrive_spelled_out(store: Store, database: Path) -> None:
    story = Story(store, "quick-1")
    story.begin("evaluate")
    metrics = {"pass@8": 0.5, "../up": 1.0, "50%": 2.0, "n" * 300: 3.0}
    story.stage("evaluate", {}, metrics=metrics, params={"k@": 1, "nested": {"a b": None}}, labels={"cell": "x=1"})
    assert deliver(store, "quick-1", uri_of(database)).refused == {}
    names = {name for (name,) in rows_of(database, "select key from metrics")}
    assert {"pass_at_8", "_x2e__x2e__x2f_up", "50_percent_"} < names
    assert [len(name) for name in names if name.startswith("nnn")] == [250]
    assert set(rows_of(database, "select key, value from params where key like '%_at_' or key like 'nested%'")) == {
        ("k_at_", "1"),
        ("nested.a b", "null"),
    }


def test_a_version_is_registered_once_for_a_run(store: Store, database: Path) -> None:
    story = tell(store, "quick-1")
    digest = story.made["rl.model"][1]
    again = {"run_id": "quick-1", "stage": "rl", "metrics": {}, "aliases": ["champion"]}
    assert register_model(store, "tiny", digest, **again) == 1
    deliver(store, "quick-1", uri_of(database))
    assert rows_of(database, "select name, version from model_versions") == [("tiny", 1)]

    rerun = Story(store, "quick-2")  # all from the cache
    rerun.begin("rl")
    rerun.stage("rl", {"model": ("Model", "rl")}, cache="hit")
    assert register_model(store, "tiny", digest, **again | {"run_id": "quick-2", "aliases": ["kept"]}, reused=True) == 1
    deliver(store, "quick-2", uri_of(database))
    assert rows_of(database, "select name, version from model_versions") == [("tiny", 1)]
    assert ("kept", 1) in rows_of(database, "select alias, version from registered_model_aliases")


def test_alarms_are_tags_of_the_stage_and_of_the_run(store: Store, database: Path) -> None:
    story = tell(store, "quick-1")
    mark = next(key.split("/")[4] for key in spooled_keys(store, "quick-1") if "/stages/sft/" in key)
    alarm = {"name": "loss_exploded", "since": 3, "text": "the loss <rose>", "helps": "lower lr (100)", "cleared": None}
    assert story.spool.alarms("sft", mark, [alarm], 1)
    assert not story.spool.alarms("sft", mark, [alarm], 1)  # a rerun tells it once
    story.spool.alarms("sft", mark, [{**alarm, "cleared": 9}], 2)
    assert deliver(store, "quick-1", uri_of(database)).pending == 0
    client = client_of(database)
    experiment = client.get_experiment_by_name("quick").experiment_id
    runs = {run.info.run_name: run for run in client.search_runs([experiment])}
    assert runs["sft"].data.tags["posttrain.alarms"] == "loss_exploded"
    assert runs["sft"].data.tags["posttrain.alarm.loss_exploded"] == "since step 3, over at step 9: the loss <rose>"
    assert runs["quick-1"].data.tags["posttrain.alarm.sft"] == "loss_exploded since step 3, over at step 9"
    found = client.search_runs([experiment], "tags.`posttrain.alarms` = 'raised'")
    assert [run.info.run_name for run in found] == ["quick-1"]

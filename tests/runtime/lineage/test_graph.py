"""The lineage graph of hand-made runs, both ways, and all the ways to name where it starts."""

from __future__ import annotations

import hashlib
import io
import json
import time
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from components.contract.artifacts import ArtifactType
from components.contract.context import Input
from components.contract.errors import InputError, UnknownName
from components.runtime.ledger.ledger import load_run
from components.runtime.ledger.shown import show_json
from components.runtime.lineage.graph.graph import Graph, ancestors, descendants
from components.runtime.lineage.graph.tree import lineage_tree
from components.runtime.lineage.registry import register_model
from components.runtime.store import Store, open_store
from tests.runtime.lineage.conftest import Story, tell

CHAMPION = ("candidate", "measure", "champion")


def edges(graph: Graph) -> set[tuple[str, str, str]]:
    """Return edges with short names: stages by name, artifacts by type and the first letters of their content."""

    def name(node_id: str) -> str:
        node = graph.nodes[node_id]
        return {
            "artifact": lambda: node["type"],
            "stage": lambda: node["stage"],
            "registered": lambda: f"{node['name']}/{node['version']}",
            "source": lambda: node["uri"],
        }[node["kind"]]()

    return {(name(source), name(target), port) for source, target, port in graph.edges}


def imported(story: Story, uri: str) -> Input:
    manifest = story.artifact("Dataset", f"from {uri}")
    return Input(type=ArtifactType.DATASET, digest=manifest.digest, path=Path(), metadata={}, source=uri)


def test_ancestors_reach_datasets_and_the_places_they_came_from(store: Store) -> None:
    story = Story(store, "quick-1")
    story.begin("prompts", "base", "rl")
    raw = imported(story, "s3://data/raw.jsonl")
    story.stage("prompts", {"prompts": ("Dataset", "rows")}, inputs={"rows": [raw]})
    story.stage("base", {"model": ("Model", "base")}, params={"steps": 5})
    used = story.inputs(model="base.model", dataset="prompts.prompts")
    story.stage("rl", {"model": ("Model", "rl")}, inputs=used, register_as="tiny", metrics={"pass@1": 0.5})

    graph = ancestors(store, "tiny")
    assert edges(graph) == {
        ("s3://data/raw.jsonl", "Dataset", ""),
        ("Dataset", "prompts", "rows"),
        ("prompts", "Dataset", "prompts"),
        ("base", "Model", "model"),
        ("Dataset", "rl", "dataset"),
        ("Model", "rl", "model"),
        ("rl", "Model", "model"),
        ("Model", "tiny/1", ""),
    }
    told = json.loads(json.dumps(graph.to_json()))
    assert told["datasets"] == sorted([raw.digest, story.made["prompts.prompts"][1]])
    assert told["sources"] == ["s3://data/raw.jsonl"]
    assert told["root"] == "registered:tiny/1"
    rl = next(node for node in told["nodes"] if node.get("stage") == "rl" and node["kind"] == "stage")
    assert rl["seed"] == 7 and rl["metrics"] == {"pass@1": 0.5}
    assert rl["code"]["version"] == "0123abcd" * 5 and rl["code"]["files"] == {"components/rl/run.py": "1" * 64}


@pytest.mark.parametrize(
    "name", ["tiny", "tiny@candidate", "tiny/1", "quick-1:rl.model", "quick:rl.model", "digest", "prefix"]
)
def test_every_name_of_a_model_leads_to_the_same_graph(store: Store, name: str) -> None:
    story = tell(store, "quick-1")
    digest = story.made["rl.model"][1]
    graph = ancestors(store, {"digest": digest, "prefix": digest[:9]}.get(name, name))
    assert {node["stage"] for node in graph.of_kind("stage")} == {"base", "prompts", "sft", "rl"}
    assert digest in graph.nodes


def test_descendants_are_all_that_a_dataset_touched_in_any_run(store: Store) -> None:
    story = tell(store, "quick-1")
    other = Story(store, "other-1", recipe="other")
    other.begin("sft")
    data = story.made["prompts.prompts"][1]
    shared = Input(ArtifactType.DATASET, data, Path(), {}, f"artifact:{data}")
    other.stage("sft", {"model": ("Model", "of the other run")}, inputs={"dataset": [shared]}, params={"lr": 2})
    graph = descendants(store, data)
    stages = sorted((node["run_id"], node["stage"]) for node in graph.of_kind("stage"))
    assert stages == [("other-1", "sft"), ("quick-1", "evaluate"), ("quick-1", "rl"), ("quick-1", "sft")]
    models = {story.made[f"{stage}.model"][1] for stage in ("sft", "rl")} | {other.made["sft.model"][1]}
    assert set(graph.to_json()["models"]) == models
    assert [node["id"] for node in graph.of_kind("registered")] == ["registered:tiny/1"]
    assert story.made["base.model"][1] not in graph.nodes


def test_a_reused_stage_shows_the_work_that_really_ran(store: Store) -> None:
    tell(store, "quick-1")
    tell(store, "quick-2", cache="hit")
    assert {node["run_id"] for node in ancestors(store, "quick-2:rl.model").of_kind("stage")} == {"quick-1"}
    reached = descendants(store, "quick-1:base.model").of_kind("stage")
    assert sorted(node["stage"] for node in reached) == ["evaluate", "rl", "sft"]


def test_an_input_taken_by_digest_leads_on_into_the_run_that_made_it(store: Store) -> None:
    story = tell(store, "quick-1")
    digest = story.made["rl.model"][1]
    other = Story(store, "other-1", recipe="other")
    other.begin("sft")
    taken = Input(ArtifactType.MODEL, digest, Path(), {}, f"artifact:{digest}")
    other.stage("sft", {"model": ("Model", "more")}, inputs={"model": [taken]})
    runs = {(node["run_id"], node["stage"]) for node in ancestors(store, "other-1:sft.model").of_kind("stage")}
    assert runs == {("other-1", "sft"), *(("quick-1", stage) for stage in ("base", "prompts", "sft", "rl"))}


def test_equal_bytes_from_two_runs_keep_to_the_run_that_was_named(store: Store) -> None:
    for run_id, code in (("quick-1", "1"), ("quick-2", "2")):
        story = Story(store, run_id)
        story.begin("base", "sft")
        story.stage("base", {"model": ("Model", "same bytes")}, code=code)
        story.stage("sft", {"model": ("Model", "same too")}, inputs=story.inputs(model="base.model"), code=code)
    for run_id in ("quick-1", "quick-2"):
        nodes = ancestors(store, f"{run_id}:sft.model").of_kind("stage")
        assert [node["run_id"] for node in nodes] == [run_id, run_id]
    assert {node["run_id"] for node in ancestors(store, story.made["sft.model"][1]).of_kind("stage")} == {"quick-1"}


def adopted(story: Story, stage: str, source: str, digest: str) -> None:
    """Let a stage take a model and give it on as it is, as adopt does, and register it."""
    taken = Input(ArtifactType.MODEL, digest, Path(), {}, source)
    text = (story.store.fetch(digest) / "content.json").read_text()
    story.stage(stage, {"model": ("Model", text)}, inputs={"model": [taken]}, register_as="tiny", component="adopt")


def crowned(store: Store, run_id: str, digest: str, later: float) -> Story:
    """Tell a run of the champion recipe: a registered model is adopted, measured, and adopted again."""
    story = Story(store, run_id, recipe="champion")
    story.clock = time.time() + later
    story.begin("candidate", "measure", "champion")
    adopted(story, "candidate", "models:/tiny@candidate", digest)
    story.stage("measure", {"metrics": ("Metrics", run_id)}, inputs=story.inputs(model="candidate.model"))
    adopted(story, "champion", "candidate.model", digest)
    return story


def is_acyclic(graph: Graph) -> bool:
    """Return whether the graph has an order."""
    order = TopologicalSorter[str]()
    for source, target, _ in graph.edges:
        order.add(target, source)
    try:
        order.prepare()
    except CycleError:
        return False
    return True


def test_what_was_adopted_again_and_again_leads_back_to_the_training(store: Store) -> None:
    digest = tell(store, "quick-1").made["rl.model"][1]
    for number in (1, 2):
        crowned(store, f"champion-{number}", digest, later=1000.0 * number)
    graph = ancestors(store, "champion-2:champion.model")
    trained = [("quick-1", stage) for stage in ("rl", "sft", "base", "prompts")]
    adoptions = [(f"champion-{number}", stage) for number in (2, 1) for stage in ("champion", "candidate")]
    walked = [(node["run_id"], node["stage"]) for node in graph.of_kind("stage")]
    assert walked[0] == adoptions[0] and set(trained) < set(walked) and ("champion-2", "candidate") in walked
    assert set(walked) <= {*trained, *adoptions} and is_acyclic(graph)
    assert graph.root == digest and graph.to_json()["models"].count(digest) == 1

    console = Console(width=200, record=True, file=io.StringIO())
    console.print(lineage_tree(graph))
    assert [console.export_text(clear=False).count(f"{stage} run quick-1") for _, stage in trained] == [1] * 4


def test_what_follows_an_adoption_is_told_apart_from_what_follows_the_training(store: Store) -> None:
    story = tell(store, "quick-1")
    digest = story.made["rl.model"][1]
    crowned(store, "champion-1", digest, later=1000.0)
    everything = descendants(store, "quick-1:rl.model")
    reached = [(node["run_id"], node["stage"]) for node in everything.of_kind("stage")]
    assert sorted(reached) == sorted([("quick-1", "evaluate"), *(("champion-1", name) for name in CHAMPION)])
    assert is_acyclic(everything)
    after = [node["stage"] for node in descendants(store, "champion-1:candidate.model").of_kind("stage")]
    assert after == ["measure", "champion"]


def test_a_selection_that_keeps_the_model_it_was_given_is_no_circle(store: Store) -> None:
    story = Story(store, "quick-1")
    story.begin("base", "select", "sft")
    story.stage("base", {"model": ("Model", "kept")})
    story.stage("select", {"model": ("Model", "kept")}, inputs=story.inputs(model="base.model"))
    story.stage("sft", {"model": ("Model", "after")}, inputs=story.inputs(model="select.model"))
    graph = ancestors(store, "quick-1:sft.model")
    assert [node["stage"] for node in graph.of_kind("stage")] == ["sft", "select", "base"]
    assert is_acyclic(graph)
    assert [node["stage"] for node in descendants(store, "quick-1:base.model").of_kind("stage")] == ["select", "sft"]


def test_what_came_from_outside_was_not_made_by_what_came_later(store: Store) -> None:
    story = Story(store, "quick-1")
    story.begin("there", "back")
    raw = imported(story, "s3://data/raw.jsonl")
    story.stage("there", {"dataset": ("Dataset", "turned")}, inputs={"rows": [raw]})
    story.stage("back", {"dataset": ("Dataset", "from s3://data/raw.jsonl")}, inputs=story.inputs(rows="there.dataset"))
    assert story.made["back.dataset"][1] == raw.digest
    graph = ancestors(store, "quick-1:back.dataset")
    assert [node["stage"] for node in graph.of_kind("stage")] == ["back", "there"]
    assert is_acyclic(graph) and [node["uri"] for node in graph.of_kind("source")] == ["s3://data/raw.jsonl"]


def test_a_removed_artifact_keeps_its_place(store: Store) -> None:
    story = tell(store, "quick-1")
    store.delete(story.made["base.model"][1])
    graph = ancestors(store, "tiny")
    assert graph.nodes[story.made["base.model"][1]]["stored"] is False
    assert "base" in {node["stage"] for node in graph.of_kind("stage")}


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("tinny", UnknownName, "did you mean 'tiny'"),
        ("tiny@champion", UnknownName, "unknown version of model 'tiny' 'champion'"),
        ("tiny/9", UnknownName, "known: 1, candidate"),
        ("quick-1:rl.modle", UnknownName, "did you mean 'rl.model'"),
        ("quick-9:rl.model", UnknownName, "unknown run 'quick-9'"),
        ("quick-1:", UnknownName, "known: base.model"),
        ("", UnknownName, "unknown artifact or registered model"),
        ("../../etc/passwd", UnknownName, "unknown artifact or registered model"),
        ("ffffffff", UnknownName, "unknown artifact or registered model"),
    ],
)
def test_wrong_names_say_what_was_probably_meant(store: Store, name: str, kind: type[Exception], text: str) -> None:
    tell(store, "quick-1")
    with pytest.raises(kind) as caught:
        ancestors(store, name)
    assert text in str(caught.value)


def test_a_beginning_that_fits_two_digests_is_refused(store: Store) -> None:
    for digest in ("abcd1" + "0" * 59, "abcd2" + "0" * 59):
        store.put(f"producers/{digest}/{'0' * 64}.json", {"fingerprint": "0" * 64, "port": "model"})
    with pytest.raises(InputError, match="several artifacts: abcd10000000, abcd20000000"):
        ancestors(store, "abcd")
    assert ancestors(store, "abcd2").root == "abcd2" + "0" * 59


def test_versions_count_up_and_aliases_move_to_the_newest(store: Store) -> None:
    def register(name: str, **options: Any) -> int:
        digest = hashlib.sha256(name.encode()).hexdigest()
        return register_model(store, "m", digest, run_id=name, stage="rl", metrics={}, **options)

    assert [register("a", aliases=["champion"]), register("b"), register("c", aliases=["champion"])] == [1, 2, 3]
    assert [register("a", aliases=["champion"]), register("b", aliases=["champion"])] == [1, 2]
    assert store.get("models/m/aliases/champion.json") == {"version": 3}
    with pytest.raises(InputError, match="alias '1'"):
        register("d", aliases=["1"])
    with pytest.raises(InputError, match=r"model name '\.\./x'"):
        register_model(store, "../x", "0" * 64, run_id="r", stage="rl", metrics={})


def test_the_tree_names_every_stage_once(store: Store) -> None:
    tell(store, "quick-1")
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(lineage_tree(ancestors(store, "tiny@candidate")))
    text = console.export_text(clear=True)
    assert text.startswith("tiny/1 @candidate")
    assert [text.count(f"{stage} run quick-1") for stage in ("base", "prompts", "sft", "rl")] == [1, 1, 1, 1]
    assert "method=grpo" in text and "(as above)" in text
    console.print(lineage_tree(descendants(store, "quick-1:prompts.prompts")))
    text = console.export_text()
    assert [text.count(f"{stage} run quick-1") for stage in ("sft", "rl", "evaluate")] == [1, 1, 1]
    assert "tiny/1 @candidate" in text


def test_the_tree_shows_what_a_person_reads_of_long_parameters(store: Store) -> None:
    story = Story(store, "quick-1")
    story.begin("prompts")
    sources = [{"domain": f"d{number}", "source": {"name": "reasoning_gym"}} for number in range(4)]
    params = {"sources": sources, "text": "word " * 40, "split": [0.0, 0.5]}
    story.stage("prompts", {"prompts": ("Dataset", "rows")}, params=params)
    graph = ancestors(store, "quick-1:prompts.prompts")
    console = Console(width=400, record=True, file=io.StringIO())
    console.print(lineage_tree(graph))
    text = console.export_text()
    assert "sources=[4 items], split=[0.0, 0.5], text=word word word word word word..." in text
    assert graph.to_json()["nodes"][1]["given_params"] == params


def test_a_bucket_answers_like_a_folder(store: Store, s3_uri: str) -> None:
    bucket = open_store(s3_uri)
    for place in (store, bucket):
        tell(place, "quick-1")
    assert edges(ancestors(bucket, "tiny")) == edges(ancestors(store, "tiny"))
    dataset = "quick-1:prompts.prompts"
    assert edges(descendants(bucket, dataset)) == edges(descendants(store, dataset))
    shown, expected = (show_json(load_run(place, "quick-1")) for place in (bucket, store))
    assert [stage["fingerprint"] for stage in shown["stages"]] == [stage["fingerprint"] for stage in expected["stages"]]

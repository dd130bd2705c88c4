"""What counts as one difference: places, operators, paths of two folders, stages with what refers to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.bisection.differences import Difference, apply, differences
from pipelines.bisection.trees import Tree, tree_of
from pipelines.recipe.layers import read_layers

GOOD: Tree = {
    "params": {"lr": 0.1},
    "stages": {
        "data": {"uses": "curate", "in": {}, "with": {"sources": [{"name": "a", "count": 1}, {"name": "b"}]}},
        "rl": {"uses": "rl", "in": {"dataset": "data.dataset"}, "with": {"objective": {"name": "clip", "low": 1}}},
    },
}


def changed(**stages: object) -> Tree:
    return {**GOOD, "stages": {**GOOD["stages"], **stages}}


def names(found: list[Difference]) -> list[list[str]]:
    return [[part.name for part in one.parts] for one in found]


def test_the_deepest_places_differ_by_themselves() -> None:
    data = {"uses": "curate", "in": {}, "with": {"sources": [{"name": "a", "count": 2}, {"name": "b", "share": 1}]}}
    found = differences(GOOD, {**changed(data=data), "params": {"lr": 0.2}})
    assert names(found) == [["lr"], ["stages.data.with.sources.0.count"], ["stages.data.with.sources.1.share"]]
    assert found[0].text == "lr: 0.1 -> 0.2"


def test_an_operator_of_another_name_is_one_difference() -> None:
    rl = {"uses": "rl", "in": {"dataset": "data.dataset"}, "with": {"objective": {"name": "gspo", "low": 2, "high": 3}}}
    assert names(differences(GOOD, changed(rl=rl))) == [["stages.rl.with.objective"]]


def test_a_stage_goes_with_what_refers_to_it() -> None:
    rl = {"uses": "rl", "in": {"dataset": "more.dataset"}, "with": {"objective": {"name": "clip", "low": 5}}}
    found = differences(GOOD, changed(more={"uses": "curate"}, rl=rl))
    assert sorted(names(found)) == [["stages.rl.in.dataset", "stages.more"], ["stages.rl.with.objective.low"]]
    back = differences(changed(more={"uses": "curate"}, rl=rl), GOOD)
    assert sorted(map(sorted, names(back))) == [
        ["stages.more", "stages.rl.in.dataset"],
        ["stages.rl.with.objective.low"],
    ]


def test_a_parameter_goes_with_what_takes_it() -> None:
    rl = {
        "uses": "rl",
        "in": {"dataset": "data.dataset"},
        "with": {"objective": {"name": "clip", "low": "${params.low}"}},
    }
    found = differences(GOOD, {**changed(rl=rl), "params": {"lr": 0.1, "low": 4}})
    assert [sorted(one) for one in names(found)] == [["low", "stages.rl.with.objective.low"]]


def test_seeds_and_what_changes_no_result_are_no_differences(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: a\nseed: 1\nparams: {x: {default: 1, min: 0}}\nstages: {s: {uses: rl}}\n")
    (tmp_path / "b.yaml").write_text(
        "name: b\nsummary: B\nseed: 2\nparams: {x: 1}\ndefaults: {retries: 4}\n"
        "stages: {s: {uses: rl, gate: x > 1, register: m, timeout: 3s, approve: true}}\n"
    )
    good, bad = (tree_of(read_layers(tmp_path / f"{name}.yaml"), ()) for name in "ab")
    assert differences(good, bad) == []


def test_paths_of_two_folders_are_absolute_and_their_files_a_difference_of_data_or_code(tmp_path: Path) -> None:
    trees = []
    for name in ("old", "new"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "rows.jsonl").write_text("{}\n")
        (folder / "reward.py").write_text("")
        text = "name: x\nstages: {s: {uses: rl, in: {dataset: ./rows.jsonl}, with: {rewards: ['./reward.py:f']}}}\n"
        (folder / "r.yaml").write_text(text)
        trees.append(tree_of(read_layers(folder / "r.yaml"), ()))
    found = differences(*trees)
    assert [(one.kind, one.parts[0].bad) for one in found] == [
        ("data", str(tmp_path / "new" / "rows.jsonl")),
        ("code", [f"{tmp_path / 'new' / 'reward.py'}:f"]),
    ]


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.text("ab", max_size=2))
KEYS = st.sampled_from(["a", "b", "name", "uses", "repeat"])
TREES = st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=3) | st.lists(inner, max_size=2))


@given(st.dictionaries(KEYS, TREES, max_size=4), st.dictionaries(KEYS, TREES, max_size=4))
def test_all_differences_together_make_the_other_tree(good: Tree, bad: Tree) -> None:
    good, bad = {"stages": good}, {"stages": bad}
    found = differences(good, bad)
    apply(good, found)
    assert good == bad


@pytest.mark.parametrize(("good", "bad"), [(1, True), (0, False)])
def test_a_number_is_no_truth(good: object, bad: object) -> None:
    assert len(differences({"defaults": {"x": good}}, {"defaults": {"x": bad}})) == 1

"""Systems beside presets: listed, shown, compared and reproduced, also from a folder outside of this repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.rl.presets import preset_names
from pipelines.cli import main
from pipelines.language.find import METHODS
from pipelines.methods.diff import diff_methods
from pipelines.methods.methods import find_method, list_methods
from pipelines.methods.slots_diff import Side
from pipelines.methods.systems import list_systems
from tests.support.toy_command import Command, toy_command

CLAIM = Path("tests/pipelines/recipes/toy-claim.yaml").read_text(encoding="utf-8")
SYSTEM = """
system:
  catalogue: 7
  paper: "Doe 2025, Tripling, arXiv:2501.00001"
  summary: Numbers are multiplied by three
  sources: {params.factor: section 2}
  missing: [division]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of methods outside the repository, named by POSTTRAIN_RECIPES."""
    (tmp_path / METHODS).mkdir()
    monkeypatch.setenv("POSTTRAIN_RECIPES", str(tmp_path))
    return tmp_path / METHODS


def read(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_presets_and_systems_are_in_one_list(capsys: pytest.CaptureFixture[str]) -> None:
    found = {row["slug"]: row for row in read(capsys, "methods")}
    assert {slug for slug, row in found.items() if row["kind"] == "preset"} == set(preset_names())
    ton = found["ton"]
    assert (ton["kind"], ton["catalogue"], ton["status"], ton["recipe"]) == ("system", 25, "runnable", "methods/ton")
    assert list(dict.fromkeys(ton["stages"].values())) == ["curate", "pretrain", "sft", "rl", "evaluate"]
    assert ton["slots"] == {} and ton["missing"] and "arXiv:2505.16854" in ton["paper"]
    assert main(["methods"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("ton "))
    assert "Wang et al. 2025" in line and "curate > pretrain > sft > rl > evaluate" in line


def test_one_method_with_the_values_and_sources_of_its_constants(capsys: pytest.CaptureFixture[str]) -> None:
    constants = {row["place"]: row for row in read(capsys, "methods", "ton")["constants"]}
    weight = constants["stages.demos.with.sources.short.demonstrators.skipped.weight"]
    assert weight["value"] == 0.5 and "0.5" in weight["source"]
    assert constants["stages.rl.with.group_size"]["value"] == "${params.group_size}"
    assert main(["methods", "dapo"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("dapo: DAPO, a preset of components/rl/methods\n")
    assert ["objective.ppo_clip.clip_high", "0.28", "section", "4.1"] in [line.split() for line in shown.splitlines()]
    assert main(["methods", "tonn"]) == 2
    assert "unknown method 'tonn'; did you mean 'ton'?" in capsys.readouterr().err


def test_a_system_is_compared_by_stages_and_its_rl_by_slots() -> None:
    rows = {row.place: row for row in diff_methods("ton", "dapo")}
    stages = rows["stages"].a
    assert stages is not None and "thoughts (curate)" in stages.value
    assert rows["rl.rewards"].a == Side(["verifier", "pattern"], None)
    weight = rows["rl.rewards.pattern.weight"]
    assert weight.a is not None and "reconstructed" in (weight.a.source or "") and weight.b is None
    clip = rows["rl.objective.ppo_clip.clip_high"]
    assert clip.b == Side(0.28, "section 4.1"), "the preset's own source"
    assert rows["rl.method"].a == Side("grpo", None)
    places = {row.place for row in diff_methods("rlpt", "mr-rlvr")}  # both on testbed-rules
    assert not any(place.startswith(("base.with", "rl.steps", "sft.")) for place in places), "what is equal is left out"


def test_lists_of_numbers_are_shown_as_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "ton", "dapo"]) == 0
    assert "1, 2, 4, 8, 16, 32, 64" in capsys.readouterr().out


def test_a_system_does_not_differ_from_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert diff_methods("ton", "ton") == []
    assert main(["diff", "ton", "grpo"]) == 0
    assert "sft.in.dataset" not in capsys.readouterr().out, "its own arm learns from `demos`, as all others do"


def test_a_preset_without_a_recipe_has_no_stages(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("pipelines.methods.methods.recipe_files", dict)
    assert main(["diff", "ton", "grpo"]) == 2
    assert "method 'ton' has no recipe whose stages could be compared" in capsys.readouterr().err


def test_a_folder_of_ones_own_brings_systems(folder: Path, tmp_path: Path) -> None:
    """With toy components: from the list to a recorded result, and back into the list."""
    (folder / "triple.yaml").write_text(CLAIM.replace("name: toy-claim", "name: triple") + SYSTEM, encoding="utf-8")
    posttrain = toy_command(tmp_path / "store")
    listed = {row["slug"]: row for row in _json(posttrain, "methods")}
    assert (listed["triple"]["status"], listed["triple"]["origin"]) == ("runnable", str(tmp_path))
    assert listed["triple"]["verdict"] is None
    trained = dict.fromkeys(("start", "base", "train"), "toy-train")
    assert listed["triple"]["stages"] == {**trained, "score": "toy-score"}
    found = _json(posttrain, "reproduce", "triple", "--record")
    assert (found["slug"], found["verdicts"]["outcome"], found["catalogue"]) == ("triple", "seen", 7)
    kept = json.loads((folder / "results" / "triple.json").read_text(encoding="utf-8"))
    assert kept == {key: value for key, value in found.items() if key != "run_id"}
    assert posttrain("reproduce", "triple", "--check").returncode == 0
    kept["claims"]["outcome"]["effects"][0] = -500
    (folder / "results" / "triple.json").write_text(json.dumps(kept), encoding="utf-8")
    bent = posttrain("reproduce", "triple", "--check")
    assert bent.returncode == 1 and "its verdicts are not those of its effects" in bent.stdout
    again = _json(posttrain, "methods", "triple")
    assert again["verdict"]["verdicts"]["outcome"] == "seen"
    assert again["constants"] == [{"place": "params.factor", "value": 3, "source": "section 2"}]


def _json(posttrain: Command, *arguments: str) -> Any:
    done = posttrain(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_broken_system_says_so_and_hides_no_other(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = f"name: good\nextends: testbed\n{_testbed_claim()}{SYSTEM.replace('params.factor', 'params.rl_steps')}"
    (folder / "good.yaml").write_text(good, encoding="utf-8")
    (folder / "typo.yaml").write_text(good.replace("catalogue: 7", "catalog: 7", 1), encoding="utf-8")
    (folder / "torn.yaml").write_text("name: [", encoding="utf-8")
    (folder / "gone.yaml").write_text(good.replace("extends: testbed", "extends: testbad"), encoding="utf-8")
    (folder / "dapo.yaml").write_text(good, encoding="utf-8")
    (folder / "plain.yaml").write_text(good.partition("system:")[0], encoding="utf-8")
    found = {method.slug: method for method in list_methods()}
    assert found["good"].status == "runnable" and found["good"].facts.summary == "Numbers are multiplied by three"
    assert "unknown key 'catalog'" in found["typo"].status and "typo.yaml" in found["typo"].status
    assert "torn.yaml" in found["torn"].status and "testbad" in found["gone"].status
    assert "another method" in found["dapo"].status and "not 7" in found["dapo"].status
    assert "plain" not in found and found["ton"].status == "runnable"
    assert main(["methods", "typo"]) == 0 and main(["methods"]) == 0
    capsys.readouterr()
    assert main(["diff", "typo", "ton"]) == 2
    assert "unknown key 'catalog'" in capsys.readouterr().err


def test_a_preset_within_a_longer_recipe_is_one_method(folder: Path) -> None:
    text = f"name: brorl\nextends: testbed\n{_testbed_claim()}{SYSTEM}".replace("catalogue: 7", "catalogue: 89")
    (folder / "brorl.yaml").write_text(text.replace("params.factor", "seed"), encoding="utf-8")
    method = find_method("brorl")
    assert (method.kind, method.status) == ("system", "runnable")
    assert method.preset is not None and method.to_json()["slots"]["schedule"]["name"] == "broaden"
    assert method.result is not None, "the result that is recorded beside the preset stays its own"


def test_only_a_recipe_with_the_block_is_a_system() -> None:
    written = {
        path.stem for path in Path("pipelines/recipes/methods").glob("*.yaml") if "\nsystem:\n" in path.read_text()
    }
    assert set(list_systems()) == written and {"limit-of-rlvr", "support-report", "ton"} <= written
    assert "dapo" not in written, "it reproduces a preset"


def _testbed_claim() -> str:
    return """
matrix: {arm: {method: {method: dapo}}}
hallmark:
  claim: Learns
  outcome: {name: learned, value: rl.pass_rate, direction: higher, floor: 0.1, floor_from: a guess}
"""

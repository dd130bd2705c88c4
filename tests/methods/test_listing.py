"""`posttrain methods` and `posttrain diff`: what is listed, and exactly what differs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.contract import plug_ins, registry
from components.contract.errors import InputError
from components.rl import presets
from components.rl.slots import step_slots
from pipelines.cli import main
from pipelines.methods.diff import diff_methods
from pipelines.methods.methods import list_methods
from pipelines.methods.results import EARLIER_PROTOCOL


def read(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_methods_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    found = {row["slug"]: row for row in read(capsys, "methods")}
    dapo = found["dapo"]
    fields = {"slug", "catalogue", "paper", "slots", "status", "recipe", "verdict", "title", "summary", "origin"}
    assert set(dapo) == fields | {"kind", "stages", "missing"}
    assert (dapo["kind"], dapo["stages"]) == ("preset", {})
    assert "arXiv:2503.14476" in dapo["paper"]
    assert (dapo["status"], dapo["recipe"], dapo["origin"]) == ("runnable", "methods/dapo", "components/rl/methods")
    assert dapo["slots"]["filters"] == [{"name": "dynamic_sampling", "max_refills": 9}]
    assert set(dapo["slots"]) == set(step_slots())
    assert found["ace"]["catalogue"] == 84


def test_methods_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["method", "id", "paper", "slots"]
    (dapo,) = (line for line in lines if line.startswith("dapo "))
    assert "Yu et al. 2025" in dapo and "verifier+overlong dynamic_sampling group_mean_std ppo_clip" in dapo


def test_a_difference_is_what_one_has_and_the_other_has_not() -> None:
    found = {row.place: (row.a and row.a.value, row.b and row.b.value) for row in diff_methods("dapo", "grpo")}
    assert found == {
        "rewards": (["verifier", "overlong"], ["verifier"]),
        "rewards.verifier.wrong": (-1.0, 0.0),
        "rewards.overlong.cache_share": (0.2, None),
        "rewards.overlong.weight": (1.0, None),
        "filters": (["dynamic_sampling"], []),
        "filters.dynamic_sampling.max_refills": (9, None),
        "objective.ppo_clip.denominator": ("tokens", "responses"),
        "objective.ppo_clip.clip_high": (0.28, 0.2),
        "regularizers": ([], ["kl"]),
        "regularizers.kl.coefficient": (None, 0.04),
        "regularizers.kl.estimator": (None, "k3"),
        "reference": (["none"], ["initial"]),
    }


def test_every_constant_that_differs_is_cited() -> None:
    rows = {row.place: row for row in diff_methods("dapo", "grpo")}
    clip = rows["objective.ppo_clip.clip_high"]
    assert clip.a is not None and clip.b is not None
    assert (clip.a.source, clip.b.source) == ("section 4.1", "as objective.ppo_clip.clip_low")
    weight = rows["rewards.overlong.weight"].a
    assert weight is not None and weight.source == "default of the operator"
    assert all(side is None or side.source for row in rows.values() if "." in row.place for side in (row.a, row.b))


@pytest.mark.parametrize("slug", ["grpo", "ppo", "oreo", "dapo"])
def test_a_method_does_not_differ_from_itself(slug: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert diff_methods(slug, slug) == []
    assert main(["diff", slug, slug]) == 0
    assert capsys.readouterr().out == f"{slug} and {slug} do not differ\n"


def test_a_difference_is_the_same_from_both_sides() -> None:
    there = {(row.place, str(row.a), str(row.b)) for row in diff_methods("ppo", "cispo")}
    back = {(row.place, str(row.b), str(row.a)) for row in diff_methods("cispo", "ppo")}
    assert there == back and there


def test_diff_for_people_and_misspelt(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "dapo", "grpo"]) == 0
    assert "0.28  (section 4.1)" in capsys.readouterr().out
    assert main(["diff", "dapo", "grpp"]) == 2
    assert "unknown method 'grpp'; did you mean 'grpo'?" in capsys.readouterr().err


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with an empty folder of methods, known by an entry point."""
    folder = tmp_path / "brought" / "presets"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    point = EntryPoint(name="brought", value="brought.presets", group=presets.GROUP)
    monkeypatch.setattr(plug_ins, "_entry_points", lambda: EntryPoints([point]))
    caches = (registry.registered_folders, presets.preset_files, presets.load_preset)
    for cached in caches:
        cached.cache_clear()
    yield folder
    monkeypatch.undo()
    for cached in caches:
        cached.cache_clear()


def test_a_broken_method_of_a_package_says_so_and_hides_no_other(package: Path) -> None:
    preset = yaml.safe_load((presets.FOLDER / "grpo.yaml").read_text())
    (package / "typo.yaml").write_text(yaml.safe_dump(preset | {"slug": "typo", "titel": "x"}))
    (package / "other.yaml").write_text(yaml.safe_dump(preset))
    (package / "torn.yaml").write_text("slug: [")
    preset["slots"]["objective"] = "ppo_clp"
    (package / "gone.yaml").write_text(yaml.safe_dump(preset | {"slug": "gone"}))
    found = {method.slug: method.status for method in list_methods()}
    assert "titel" in found["typo"] and str(package / "typo.yaml") in found["typo"]
    assert "its slug is 'grpo'" in found["other"]
    assert "torn.yaml" in found["torn"]
    assert "did you mean 'ppo_clip'" in found["gone"]
    assert found["grpo"] == "runnable"


def test_a_method_that_is_there_twice_is_refused(package: Path) -> None:
    (package / "grpo.yaml").write_text((presets.FOLDER / "grpo.yaml").read_text())
    with pytest.raises(InputError, match=r"'grpo' is there twice: by components/rl/methods, and by"):
        presets.preset_files()


def test_an_entry_point_without_a_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.registered_folders.cache_clear()
    for value in ("no_such_package.methods", "json.decoder"):
        point = EntryPoint(name="x", value=value, group="posttrain.nothing")
        monkeypatch.setattr(plug_ins, "_entry_points", lambda point=point: EntryPoints([point]))
        with pytest.raises(InputError, match=f"posttrain.nothing.*{value}"):
            registry.registered_folders("posttrain.nothing")


def test_records_agree_with_recipes_and_code() -> None:
    """Run `posttrain reproduce METHOD --record` again where this fails: what is claimed is no longer what was run."""
    found = {method.slug: method.remarks for method in list_methods() if method.remarks is not None}
    assert len(found) > 30
    assert {slug: remarks for slug, remarks in found.items() if remarks not in ([], [EARLIER_PROTOCOL])} == {}

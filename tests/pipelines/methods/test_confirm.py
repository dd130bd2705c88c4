"""`posttrain reproduce --confirm`: a record renewed where a seed gives its numbers again, and left alone where not."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.contract import plug_ins, registry
from components.contract.errors import InputError
from pipelines.cli import main
from pipelines.cli import reproduce as command
from pipelines.methods.confirm import changed_words
from pipelines.methods.recorded import read_record
from pipelines.methods.results import verdict_json
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.cli.test_commands import Command, posttrain, read
from tests.pipelines.methods.made_records import GAIN, record
from tests.pipelines.methods.test_tuning import RECIPE
from tests.support.toy_command import PLUGIN

__all__ = ["posttrain"]
Toy = Callable[..., subprocess.CompletedProcess[str]]
Here = Callable[..., int]
TUNED = RECIPE.replace("[2, 5, 7, 12]", "[2, 5]")
CLAIM = Path("tests/pipelines/recipes/toy-claim.yaml").read_text(encoding="utf-8").replace("toy-claim", "toy-again")
SYSTEM = '\nsystem: {catalogue: 7, paper: "Doe 2025, Again, arXiv:2501.00001", summary: Again}\n'
EXTRA = "\n  extra: {uses: toy-train, matrix: none, with: {factor: 7}}\nhallmark:"
"""A stage that changes what is requested, and no number."""


@pytest.fixture(scope="module")
def made(posttrain: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of recipes with a record of two seeds, and its store."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "methods").mkdir()
    (folder / "methods" / "toy-again.yaml").write_text(CLAIM + SYSTEM, encoding="utf-8")
    read(_toy(posttrain, folder)("reproduce", "toy-again", "--record", "--json", "--seeds", "2"))
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "methods"


@pytest.fixture
def recorded(folder: Path) -> Path:
    """Return the path of a record."""
    return folder / "results" / "toy-again.json"


@pytest.fixture
def toy(posttrain: Command, folder: Path) -> Toy:
    return _toy(posttrain, folder.parent)


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    """Return a function that calls the command in this process, for what runs nothing."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.setenv("POSTTRAIN_RECIPES", str(folder.parent))
    caches = (registry.components, plug_ins._entry_points)
    for cached in caches:
        cached.cache_clear()
    yield lambda *arguments: main(["reproduce", *arguments, "--store", str(folder / "empty")])
    for cached in caches:
        cached.cache_clear()


def _toy(posttrain: Command, folder: Path) -> Toy:
    variables = {"POSTTRAIN_RECIPES": str(folder), "POSTTRAIN_STORE": str(folder / "store")}
    return lambda *arguments: posttrain(*arguments, variables=variables)


def content(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_record_that_gives_its_numbers_again_is_renewed(toy: Toy, folder: Path, recorded: Path) -> None:
    before = content(recorded)
    (folder / "toy-again.yaml").write_text(CLAIM.replace("\nhallmark:", EXTRA) + SYSTEM, encoding="utf-8")
    recorded.write_text(json.dumps(before | {"operators": {"objective gone": "0"}}), encoding="utf-8")
    stale = toy("reproduce", "toy-again", "--check")
    assert stale.returncode == 1
    assert "the recipe requests other work; the code of objective gone changed" in stale.stdout

    done = toy("reproduce", "toy-again", "--confirm", "--store", str(folder / "another"))
    assert done.returncode == 0, done.stderr
    # 6 quantities of two arms (two claims, two conditions, one secondary, two also) and an effect of the first five
    assert done.stdout == "toy-again: confirmed, 17 numbers of seed 1 are as recorded\n"
    after = content(recorded)
    assert after["confirmed"] | {"date": "", "code": {}} == {"date": "", "code": {}, "seeds": [1]}
    assert after["confirmed"]["code"].keys() == {"version", "dirty"}
    assert after["operators"] == {} and after["setting"]["digest"] != before["setting"]["digest"]
    kept = before.keys() - {"operators", "setting"}
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}, "what was measured stays"
    assert toy("reproduce", "toy-again", "--check").returncode == 0
    assert f"confirmed: {after['confirmed']['date']} with version " in toy("methods", "toy-again").stdout
    page = folder / "methods.html"
    assert toy("methods", "toy-again", "--html", str(page)).returncode == 0
    assert f"confirmed {after['confirmed']['date']} with version" in page.read_text(encoding="utf-8")


def test_a_number_that_differs_is_told_and_nothing_changes(toy: Toy, folder: Path, recorded: Path) -> None:
    """A value of a later seed is not run again; the tampered ones of the first seed are told, effect and arm."""
    bent = content(recorded)
    bent["secondary"]["ratio"]["effects"][0] = 1.500001
    bent["also"]["half"]["arms"]["method"][0] += 1
    bent["also"]["half"]["arms"]["method"][1] += 1
    recorded.write_text(json.dumps(bent), encoding="utf-8")
    before = recorded.read_bytes()
    done = toy("reproduce", "toy-again", "--confirm")
    assert done.returncode == 1 and recorded.read_bytes() == before
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["secondary.ratio:", "effect", "1.500001", "1.5"] in rows
    assert ["also.half:", "method", "13.5", "12.5"] in rows
    assert "2 of 17 numbers of seed 1 differ; the record stays as it is; run it again with --record" in done.stderr

    (folder / "toy-again.yaml").write_text(CLAIM.replace("factor: 3", "factor: 4") + SYSTEM, encoding="utf-8")
    changed = toy("reproduce", "toy-again", "--confirm", "--json")
    assert changed.returncode == 1 and recorded.read_bytes() == before
    found = {one["quantity"]: (one["recorded"], one["found"]) for one in json.loads(changed.stdout)["differing"]}
    assert found["claims.outcome: method"] == (15, 20) and "claims.outcome: baseline" not in found


CHANGES = {
    ("floor: 2,", "floor: 3,"): "hallmark.outcome.floor was 2.0 and is 3.0",
    ("direction: higher", "direction: lower"): "hallmark.outcome.direction was 'higher' and is 'lower'",
    ("more than its", "less than its"): "hallmark.claim was 'The method multiplies more than its baseline' and is",
    ("at_least: 1.5", "at_least: 1.6"): "hallmark.active.multiplies.at_least was 1.5 and is 1.6",
    ("also: {start:", "also: {begin:"): "hallmark.also.begin.value is new",
    ("effect: method / baseline", "effect: baseline / method"): "hallmark.secondary.ratio.effect was",
}


def test_a_recipe_that_claims_otherwise_is_made_again(
    here: Here, folder: Path, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing runs: the store stays empty."""
    before = recorded.read_bytes()
    for (old, new), told in CHANGES.items():
        assert CLAIM.count(old) == 1
        (folder / "toy-again.yaml").write_text(CLAIM.replace(old, new) + SYSTEM, encoding="utf-8")
        assert here("toy-again", "--confirm") == 1
        assert recorded.read_bytes() == before and not list((folder / "empty").glob("actions/*"))
        said = capsys.readouterr().err
        assert told in said and said.rstrip().endswith("make it by 'posttrain reproduce toy-again --record'")


def test_a_verdict_that_does_not_follow_is_not_confirmed(
    here: Here, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bent = content(recorded)
    bent["claims"]["outcome"]["decision"] = {"verdict": "seen", "look": 5, "confidence": 0.99, "p": 0.01}
    bent["claims"]["outcome"]["decision"]["interval"] = {"value": 5.0}
    recorded.write_text(json.dumps(bent), encoding="utf-8")
    assert here("toy-again", "--confirm") == 1
    assert "its verdicts are not those of its effects" in capsys.readouterr().err


def test_a_tuning_is_confirmed_with_its_record(toy: Toy, folder: Path) -> None:
    """One stage more, so both were made for other work; the grid is run again at the first of its seeds."""
    recipe, kept = folder / "toy-tuned.yaml", folder / "results" / "tuned" / "toy-tuned.json"
    recipe.write_text(TUNED, encoding="utf-8")
    read(toy("reproduce", "toy-tuned", "--tune", "--json"))
    read(toy("reproduce", "toy-tuned", "--record", "--json", "--seeds", "2"))
    recipe.write_text(TUNED.replace("\nhallmark:", EXTRA.replace("none,", "{seed: none, arm: none},")), "utf-8")
    before = content(kept)
    found = read(toy("reproduce", "toy-tuned", "--confirm", "--json"))
    assert found["confirmed"] and found["numbers"] == 2 * 2 + 3
    after = content(kept)
    assert after["confirmed"]["seeds"] == [91] and after["arms"] == before["arms"]
    assert read(toy("reproduce", "toy-tuned", "--check", "--json")) == {"toy-tuned": []}

    after["arms"]["method"]["values"][1][0] += 1
    after["operators"] = {"objective gone": "0"}
    kept.write_text(json.dumps(after), encoding="utf-8")
    bent = toy("reproduce", "toy-tuned", "--confirm")
    assert bent.returncode == 1 and "tuning, factor 5: method" in bent.stdout and content(kept) == after


def test_mistakes_are_one_line(here: Here, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "toy-bare.yaml").write_text(CLAIM.replace("toy-again", "toy-bare") + SYSTEM, encoding="utf-8")
    for arguments, told in (
        (("toy-bare", "--confirm"), "toy-bare: no record; make it by 'posttrain reproduce toy-bare --record'"),
        (("toy-again", "--confirm", "--record"), "--confirm uses the record's settings"),
        (("toy-again", "--confirm", "--set", "factor=2"), "--confirm uses the record's settings"),
        (("toy-again", "--confirm", "--seeds", "2"), "--confirm uses the record's settings"),
    ):
        assert here(*arguments) == 2
        said = capsys.readouterr().err
        assert told in said and said.count("\n") == 1


def test_all_takes_the_records_that_no_longer_stand(
    here: Here, folder: Path, recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three methods: one record stands, one is stale and of another claim, and one is none."""
    monkeypatch.setattr(command, "_every_slug", lambda: ["toy-again", "toy-bare", "toy-stale"])
    for slug, change in (("toy-bare", "floor: 2,"), ("toy-stale", "floor: 3,")):
        text = CLAIM.replace("toy-again", slug).replace("floor: 2,", change)
        (folder / f"{slug}.yaml").write_text(text + SYSTEM, encoding="utf-8")
    shutil.copyfile(recorded, recorded.with_name("toy-stale.json"))
    before = recorded.read_bytes()
    assert here("--all", "--confirm", "--json") == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["slug"], found["confirmed"]) == ("toy-stale", False)
    assert found["why"] == ["hallmark.outcome.floor was 2.0 and is 3.0"]
    assert here("--all", "--confirm") == 1
    assert capsys.readouterr().out == "0 records confirmed, 1 not, 0 methods failed; all other records stand\n"
    assert recorded.read_bytes() == before


def test_words_of_a_record_are_those_of_its_recipe(tmp_path: Path) -> None:
    """Against the shipped ones that stand: none has other words than its recipe."""
    path = Path("components/rl/methods/results/forking-tokens-8020.json")
    kept = read_record(json.loads(path.read_text(encoding="utf-8")))
    hallmark = load_recipe("methods/forking-tokens-8020", kept.setting.overrides).hallmark
    assert hallmark is not None and changed_words(kept, hallmark) == []


@pytest.mark.parametrize("again", ["yes", {"date": "2026-01-01"}, {"date": 1, "code": {}, "seeds": ["x"]}])
def test_a_note_that_is_none_is_told(again: Any) -> None:
    found = record("grpo", outcome=GAIN) | {"confirmed": again}
    with pytest.raises(InputError, match="malformed"):
        read_record(found)
    with pytest.raises(ValueError):
        verdict_json(found)

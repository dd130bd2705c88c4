"""The table of methods as a page, drawn of made records."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from components.contract.errors import InputError
from pipelines.methods.families import UNLISTED, family_of
from pipelines.methods.methods import list_methods
from pipelines.methods.multiplicity import together
from pipelines.methods.page.details import command
from pipelines.methods.page.page import draw
from pipelines.methods.page.rows import row_of
from pipelines.methods.recorded import read_record
from tests.pipelines.cli.test_commands import Command, posttrain, read
from tests.pipelines.methods.made_records import GAIN, NEAR_ZERO, NOISE, effect, method, methods, record

__all__ = ["posttrain"]
HOSTILE = '"><script>alert(1)</script>&'


def test_a_row_says_claim_effect_floor_seeds_tokens_and_verdicts() -> None:
    made = record("rover", mechanism=GAIN, outcome=NEAR_ZERO)
    found = read_record(made)
    row = row_of(method("rover", made), found, together([found]), ["the recipe requests other work"], ["rover-1"])
    assert (row.family, row.claim, row.spent) == (
        "objective",
        "rover gains",
        "5 seeds; 12,000 to 12,300 of rl.num_tokens an arm and seed",
    )
    mechanism, outcome = row.cells
    assert (mechanism.effect[:6], mechanism.floor, mechanism.verdict, mechanism.holds) == (
        "+0.055",
        "0.02",
        "seen",
        True,
    )
    assert mechanism.basis == "99.0% at 5 seeds", "a look at 5 of 20 seeds spends a quarter of 2 % on each side"
    assert (outcome.verdict, outcome.holds, row.verdicts) == ("no effect", False, "seen|no effect")
    assert row.command == "posttrain reproduce rover --set rl_steps=3 --record"
    assert row.remarks == ["the recipe requests other work"]


def test_the_command_gives_the_seeds_where_no_look_would() -> None:
    made = record("rover", outcome=GAIN)
    other = made | {"looks": [8, 12], "setting": {"digest": "ab", "overrides": ["matrix.seed=[9]", "matrix.seed=[9]"]}}
    assert command(read_record(other)) == "posttrain reproduce rover --set 'matrix.seed=[9]' --seeds 5 --record"


def test_claims_hold_together_by_holm_and_chance_is_counted() -> None:
    """p of GAIN beyond .02 is 1.05e-4 / .25 at a look of a quarter; three such of four stand at .02 / 4, / 3, / 2."""
    seen = [read_record(record(slug, outcome=GAIN)) for slug in ("a", "b", "c")]
    halted = read_record(record("d", outcome=GAIN) | {"verdicts": {"outcome": "precondition absent"}})
    waiting = read_record(record("e", outcome=GAIN[:2]))
    table = together([*seen, halted, waiting])
    assert (table.primaries, table.judged, table.concluded) == (5, 4, 3)
    assert table.false_verdicts == pytest.approx(4 * 2 * 0.025)
    assert table.holding == {("a", "outcome"), ("b", "outcome"), ("c", "outcome")}
    p = seen[0].claims["outcome"].decision
    assert p is not None and 0.02 / 50 < p.p < 0.02 / 4
    assert together([*seen, *[halted] * 48]).holding == frozenset(), "p does not stand in a table of 51"


def test_a_claim_judged_at_no_look_yet_is_undecided() -> None:
    made = record("rover", outcome=GAIN[:2])
    found = read_record(made)
    (cell,) = row_of(method("rover", made), found, together([found]), (), ()).cells
    assert (cell.verdict, cell.basis, cell.advice) == ("undecided", "95 %, no look yet", "")
    last = read_record(record("recap", outcome=[*NOISE] * 4))
    (cell,) = row_of(method("recap", None), last, together([last]), (), ()).cells
    assert re.fullmatch(r"about \d+ seeds would do|", cell.advice)


def test_the_page_is_whole_and_loads_nothing() -> None:
    page = draw(methods(), {}, {"rover": ["rover-20261123-1"]})
    for words in ("dars", "precondition absent", "opposite", "invalid: method spends more", "does not hold"):
        assert words in page
    assert "posttrain report rover-20261123-1" in page
    assert page.index("By an earlier protocol") < page.index("an earlier one") and "rloo: no record yet" in page
    assert not re.search(r"""(src|href)=|url\(|@import|https?://""", page), "one file, without a network"
    assert page.count("<details") == 5 and "hidden" not in re.findall(r"<details[^>]*>", page)[0]
    assert 'data-verdicts="seen|no effect"' in page


def test_what_a_record_says_is_escaped() -> None:
    made = record("rover", outcome=GAIN) | {"claim": HOSTILE, "date": HOSTILE, "code": {HOSTILE: HOSTILE}}
    made["claims"]["outcome"] |= {"name": HOSTILE, "floor_from": HOSTILE, "value": HOSTILE, "direction": HOSTILE}
    made["secondary"] = {HOSTILE: effect(GAIN) | {"value": HOSTILE}}
    made["preconditions"][HOSTILE] = made["preconditions"].pop("has_room") | {"value": HOSTILE}
    made["seconds"]["arms"] = {HOSTILE: 1.0}
    made["setting"]["overrides"] = [HOSTILE, "matrix.seed=[1]"]
    earlier = {"verdict": HOSTILE, "claim": HOSTILE, "seeds": [1], "date": HOSTILE}
    page = draw([method("rover", made), method("etr", earlier)], {"rover": [HOSTILE]}, {"rover": [HOSTILE]})
    assert "<script>alert" not in page and page.count("<script>") == 1
    assert '"><script' not in page and "&lt;script&gt;alert(1)&lt;/script&gt;&amp;" in page


@pytest.mark.parametrize(
    "change",
    [
        {"claims": {}},
        {"seeds": "0"},
        {"verdicts": {"outcome": HOSTILE}},
        {"seeds": [1]},
        {"budget": {"value": "x", "arms": {"baseline": [HOSTILE]}}},
    ],
)
def test_a_malformed_record_hides_no_other(change: dict[str, object]) -> None:
    broken = method("etr", record("etr", outcome=GAIN) | change)
    page = draw([broken, method("rover", record("rover", outcome=GAIN))], {}, {})
    assert "etr: its record is malformed" in page and page.count("<details") == 1
    assert "<script>alert" not in page


def test_values_that_are_no_numbers_are_not_drawn() -> None:
    made = record("rover", outcome=[float("nan"), *GAIN[1:]])
    assert read_record(json.loads(json.dumps(made))).verdicts["outcome"] == "undecided"
    page = draw([method("rover", made)], {}, {})
    assert 'cx="nan' not in page and page.count('class="seed"') == 4


def test_every_catalogued_method_has_a_family() -> None:
    numbers = [one.facts.catalogue for one in list_methods() if one.facts.catalogue is not None]
    assert len(numbers) > 20 and UNLISTED not in map(family_of, numbers)
    assert (family_of(82), family_of(189), family_of(25)) == ("objective", "sampling", "staged-recipe")
    assert family_of(None) == family_of(9999) == UNLISTED


def test_the_command_writes_it_whole(posttrain: Command, tmp_path: Path) -> None:
    path, store = tmp_path / "table.html", str(tmp_path / "store")
    assert read(posttrain("methods", "rover", "--html", str(path), "--json", "--store", store)) == {"page": str(path)}
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    refused = posttrain("methods", "rover", "--html", str(tmp_path / "none" / "x.html"), "--store", store)
    assert refused.returncode == 2 and "No such file" in refused.stderr and "Traceback" not in refused.stderr
    assert "is a folder" in posttrain("methods", "--html", str(tmp_path), "--store", store).stderr


def test_the_runs_that_made_a_record_are_named(posttrain: Command, tmp_path: Path) -> None:
    """Each look is a run; one with other settings is not the record's, and neither is another recipe's."""
    (tmp_path / "methods").mkdir()
    toy = Path("tests/pipelines/recipes/toy-claim.yaml").read_text(encoding="utf-8")
    system = 'system: {catalogue: 7, paper: "Doe 2025, Times, arXiv:2501.00001", summary: Times three}\n'
    (tmp_path / "methods" / "toy-claim.yaml").write_text(toy + system, encoding="utf-8")

    def toy_command(*arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {"POSTTRAIN_RECIPES": str(tmp_path), "POSTTRAIN_STORE": str(tmp_path / "store")}
        return posttrain(*arguments, variables=variables)

    path = tmp_path / "table.html"
    last = read(toy_command("reproduce", "toy-claim", "--record", "--json"))["run_id"]
    other = read(toy_command("reproduce", "toy-claim", "--set", "factor=4", "--json"))["run_id"]
    assert read(toy_command("reproduce", "toy-claim", "--check", "--json")) == {"toy-claim": []}
    assert toy_command("methods", "toy-claim", "--html", str(path)).returncode == 0
    named = re.findall(r"posttrain report (\S+)", path.read_text(encoding="utf-8"))
    assert len(named) == 2 and named[-1] == last and other not in named


def test_a_record_that_is_no_record_is_told() -> None:
    with pytest.raises(InputError, match="its record is malformed: slug: Field required"):
        read_record({"format": 2})

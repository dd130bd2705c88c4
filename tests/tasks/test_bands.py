"""What a tiny model can do in made domains before RL is within the band that the guide of sources states."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.cli import main

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "components/tasks/sources/README.md"
RECIPE = ROOT / "pipelines/recipes/domains.yaml"
ROW = re.compile(r"^\| `(\w+)` \| (\.\d+) to (\.\d+) \| (\.\d+) to (\.\d+|1) \|", re.MULTILINE)
NO_BASE = "No measured base yet:"
BANDS = {name: tuple(map(float, limits)) for name, *limits in ROW.findall(GUIDE.read_text(encoding="utf-8"))}
DOMAINS: dict[str, Any] = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))["matrix"]["domain"]


def test_every_domain_of_the_recipe_states_a_band_with_room_for_rl() -> None:
    assert BANDS.keys() == DOMAINS.keys() and BANDS
    for low, high, low_16, high_16 in BANDS.values():
        assert low < high <= low_16 < high_16 and high < 0.8, "RL can gain what is found in 16 draws and not in one"


def test_every_made_domain_has_a_band_or_is_told_to_have_none() -> None:
    rooms = ROOT / "components/tasks/sources"
    made = {path.stem for room in ("worlds", "executable") for path in (rooms / room).glob("[a-z]*.py")}
    line = next(line for line in GUIDE.read_text(encoding="utf-8").splitlines() if line.startswith(NO_BASE))
    without = set(re.findall(r"`(\w+)`", line))
    assert made == BANDS.keys() | without and not BANDS.keys() & without


@pytest.mark.slow
@pytest.mark.parametrize("domain", DOMAINS)
def test_the_base_is_within_its_band(
    domain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("POSTTRAIN_LINEAGE", "later")
    recipe = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
    recipe["matrix"]["domain"] = {domain: DOMAINS[domain]}
    file = tmp_path / "one.yaml"
    file.write_text(yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
    assert main(["run", str(file), "--store", str(tmp_path / "store"), "--json"]) == 0
    stages = json.loads(capsys.readouterr().out)["stages"]
    (found,) = [stage["metrics"] for stage in stages if f"pass_at_16_{domain}" in stage["metrics"]]
    low, high, low_16, high_16 = BANDS[domain]
    assert low <= found[f"pass_at_1_{domain}"] <= high and low_16 <= found[f"pass_at_16_{domain}"] <= high_16

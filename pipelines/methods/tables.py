"""Tables of components/rl/methods/README.md, generated from presets, systems and the recorded results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.rl.presets import FOLDER, Preset, load_preset
from components.rl.slots import step_slots
from pipelines.language.find import FOLDER as RECIPES
from pipelines.language.find import METHODS
from pipelines.methods.families import family_of
from pipelines.methods.multiplicity import together
from pipelines.methods.recorded import RecordedClaim, effect_text, read_record
from pipelines.methods.records import FORMAT, remarks_on
from pipelines.methods.results import FOLDER as RESULTS
from pipelines.methods.results import read_tuned
from pipelines.methods.systems import System, outline, read_file
from pipelines.recipe.system import SystemWords

UP = "../../../pipelines/recipes/methods"
"""Path of the systems, relative to the README of the presets."""
AGGREGATION = ("denominator", "constant")
"""Settings of an objective that have their own column."""
_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


def shipped() -> list[Preset]:
    """Return the methods of components/rl/methods; methods of installed packages are not in its tables."""
    return [load_preset(slug) for slug in sorted(path.stem for path in FOLDER.glob("*.yaml"))]


def shipped_systems() -> list[System]:
    """Return the systems of pipelines/recipes/methods; systems elsewhere are not in the tables."""
    found = (read_file(path.stem, path) for path in sorted((RECIPES / METHODS).glob("*.yaml")))
    return [system for system in found if system is not None]


def index_table(presets: Sequence[Preset], systems: Sequence[System]) -> str:
    """Return method, catalogue id, paper, kind, distinguishing feature, and what it leaves out."""
    rows = {}
    for preset in presets:
        rows[preset.slug] = _index_row(f"{preset.slug}.yaml", preset.slug, preset, "preset")
    for system in systems:
        if system.recipe is None or system.recipe.system is None:
            raise InputError(f"system {system.slug!r}: {system.error}")
        parts = " > ".join(dict.fromkeys(stage.component.name for stage in outline(system.recipe).values()))
        rows[system.slug] = _index_row(f"{UP}/{system.slug}.yaml", system.slug, system.recipe.system, parts)
    return _table(
        ("method", "id", "paper", "what it is", "what sets it apart", "left out"), [rows[s] for s in sorted(rows)]
    )


def _index_row(file: str, slug: str, words: Preset | SystemWords, parts: str) -> list[str]:
    left_out = "; ".join(words.missing) or "-"
    return [f"[`{slug}`]({file})", str(words.catalogue or "-"), _linked(words.paper), parts, words.summary, left_out]


def coordinate_table(presets: Sequence[Preset]) -> str:
    """Return the operators of every slot with their constants, a row for each method."""
    slots = list(step_slots())
    position = slots.index("objective") + 1
    columns = ["method", *slots[:position], "denominator", *slots[position:]]
    rows = []
    for preset in presets:
        cells = [_cell(slot, vars(preset.slots)[slot]) for slot in slots]
        cells.insert(position, _aggregation(preset.slots.objective))
        rows.append([f"`{preset.slug}`", *cells])
    return _table(columns, rows)


def result_table() -> str:
    """Return every reproduction by the protocol, and how many false verdicts are to be expected of them."""
    found = [(slug, read_record(record), record) for slug, record in _records() if record.get("format") == FORMAT]
    table = together(record for _, record, _ in found)
    rows = []
    for slug, record, plain in found:
        claims = "<br>".join(_claim(part, entry) for part, entry in record.claims.items())
        verdicts = "<br>".join(
            f"{part}: **{verdict}**{' +' if (slug, part) in table.holding else ''}"
            for part, verdict in record.verdicts.items()
        )
        spent = "" if record.budget is None else f"{min(map(record.budget.mean_of, record.arms)):,.0f}"
        times = ", ".join(f"{arm} {seconds:.0f}" for arm, seconds in record.seconds.arms.items())
        family = family_of(plain["catalogue"])
        date = "; ".join([record.date, *remarks_on(slug, plain, _tuned(slug))])
        rows.append([f"`{slug}`", family, record.claim, claims, verdicts, str(len(record.seeds)), spent, times, date])
    columns = ("method", "family", "claim", "effect", "verdicts", "seeds", "budget", "seconds per seed", "date")
    return "\n\n".join([_table(columns, rows), *([table.in_words] if rows else [])])


def earlier_table() -> str:
    """Return the verdicts that were recorded by the earlier protocol, for methods not run again since."""
    rows = [
        [f"`{slug}`", found["claim"], found["verdict"], str(len(found["seeds"])), found["date"]]
        for slug, found in _records()
        if found.get("format") != FORMAT
    ]
    return _table(("method", "claim", "verdict then", "seeds", "date"), rows)


def _records() -> list[tuple[str, dict[str, Any]]]:
    paths = [path for folder in (FOLDER, RECIPES / METHODS) for path in (folder / RESULTS).glob("*.json")]
    ordered = sorted(paths, key=lambda path: path.stem)
    return [(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in ordered]


def _tuned(slug: str) -> dict[str, Any] | None:
    files = (folder / f"{slug}.yaml" for folder in (FOLDER, RECIPES / METHODS))
    return next((found for file in files if (found := read_tuned(file, slug))), None)


def _claim(part: str, entry: RecordedClaim) -> str:
    found = entry.decision.interval if entry.decision else entry.interval
    claimed = f"{entry.direction.replace('_', ' ')}, floor {entry.floor:g}"
    return f"{part}, {entry.name}: {entry.effect} = {effect_text(found)} ({claimed})"


def _cell(slot: str, given: OperatorSpec | tuple[OperatorSpec, ...]) -> str:
    if isinstance(given, tuple):
        return " + ".join(map(_operator, given)) or "-"
    aside = AGGREGATION if slot == "objective" else ()
    return "." if given.name == step_slots()[slot].default and not given.settings else _operator(given, aside)


def _operator(spec: OperatorSpec, aside: Sequence[str] = ()) -> str:
    shown = [f"{key} {_value(value)}" for key, value in spec.settings.items() if key not in aside]
    return f"{spec.name}({', '.join(shown)})" if shown else spec.name


def _aggregation(objective: OperatorSpec) -> str:
    return " ".join(str(objective.settings[key]) for key in AGGREGATION if key in objective.settings) or "-"


def _value(value: Any) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:g}" if is_number else json.dumps(value).strip('"')


def _linked(paper: str) -> str:
    return _ARXIV.sub(lambda found: f"[{found[0]}](https://arxiv.org/abs/{found[1]})", paper)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)

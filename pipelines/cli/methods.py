"""Commands on methods: methods and diff."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.contract.terminal import visible_line
from pipelines.cli.output import effect_text, print_json, print_table
from pipelines.cli.stores import store_of
from pipelines.language.whole_file import write_whole

if TYPE_CHECKING:
    from pipelines.methods.methods import Method


def methods(arguments: argparse.Namespace) -> int:
    """List all methods, show one, or write the table of what was claimed and seen as a page."""
    from pipelines.methods.methods import find_method, list_methods

    if arguments.html is not None:
        chosen = list_methods() if arguments.slug is None else [find_method(arguments.slug)]
        return _write_page(chosen, arguments)
    if arguments.slug is not None:
        show(find_method(arguments.slug), as_json=arguments.json)
        return 0
    found = [method.to_json() for method in list_methods()]
    if arguments.json:
        print_json(found)
        return 0
    rows = [
        [
            row["slug"],
            str(row["catalogue"] or "-"),
            cite(row["paper"]) if row["paper"] else "-",
            " > ".join(dict.fromkeys(row["stages"].values())) or coordinates(row["slots"]),
            row["status"],
            result_text(row["verdict"]),
        ]
        for row in found
    ]
    print_table(["method", "id", "paper", "slots or stages", "status", "last reproduction"], rows)
    return 0


def _write_page(chosen: Sequence[Method], arguments: argparse.Namespace) -> int:
    from pipelines.methods.page.page import methods_page

    path = Path(arguments.html)
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file")
    page = methods_page(chosen, store_of(arguments))
    try:
        write_whole(path, page)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if arguments.json:
        print_json({"page": str(path)})
    else:
        print(visible_line(str(path)))
    return 0


def show(method: Method, *, as_json: bool) -> None:
    """Print one method: what it is, its slots or stages, the source of each constant, and what it leaves out."""
    from pipelines.methods.recorded import Confirmed

    constants = method.constants
    found = {**method.to_json(), "constants": [asdict(constant) for constant in constants]}
    if as_json:
        print_json(found)
        return
    number = f" ({found['catalogue']})" if found["catalogue"] is not None else ""
    print(f"{found['slug']}{number}: {found['title'] or '-'}, a {found['kind']} of {found['origin']}")
    for key in ("paper", "summary", "status", "recipe"):
        print(f"{key}: {found[key] or '-'}")
    print(f"last reproduction: {result_text(found['verdict'])}")
    if found["verdict"] and (again := found["verdict"]["confirmed"]):
        print(visible_line(f"confirmed: {Confirmed.model_validate(again).in_words}"))
    for text in found["missing"]:
        print(f"left out: {text}")
    if found["stages"]:
        print(f"stages: {', '.join(f'{name} ({component})' for name, component in found['stages'].items())}")
    elif found["slots"]:
        print(f"slots: {coordinates(found['slots'])}")
    if constants:
        print()
        rows = [[constant.place, str(constant.value), constant.source or "-"] for constant in constants]
        print_table(["constant", "value", "source"], rows)


def cite(paper: str) -> str:
    """Return authors and year of a citation: "Yu et al. 2025"."""
    return paper.partition(",")[0]


def coordinates(slots: dict[str, Any]) -> str:
    """Return the names of a method's slots, without the ones that most methods share."""
    from components.rl.slots import step_slots

    shown = []
    for slot, given in slots.items():
        names = [spec["name"] for spec in (given if isinstance(given, list) else [given])]
        if names and names != [step_slots()[slot].default] and names != ["verifier"]:
            shown.append("+".join(names))
    return " ".join(shown)


def result_text(verdict: dict[str, Any] | None) -> str:
    """Return verdicts with effects and intervals: "mechanism seen: entropy +0.1 [+0.05, +0.2]"."""
    if verdict is None:
        return "-"
    claims = verdict["claims"]
    return "; ".join(
        f"{part} {found}"
        + (f": {claims[part]['name']} {effect_text(claims[part]['interval'])}" if part in claims else "")
        for part, found in verdict["verdicts"].items()
    )


def diff(arguments: argparse.Namespace) -> int:
    """Show the slots and constants in which two methods differ, with their sources."""
    from pipelines.methods.diff import diff_methods
    from pipelines.methods.slots_diff import Side

    found = diff_methods(arguments.a, arguments.b)
    if arguments.json:
        print_json({"a": arguments.a, "b": arguments.b, "differences": [asdict(row) for row in found]})
        return 0

    def text(side: Side | None) -> str:
        if side is None:
            return "-"
        value = _listed(side.value) if isinstance(side.value, list) else str(side.value)
        return value if side.source is None else f"{value}  ({side.source})"

    if not found:
        print(f"{arguments.a} and {arguments.b} do not differ")
        return 0
    print_table(["where", arguments.a, arguments.b], [[row.place, text(row.a), text(row.b)] for row in found])
    return 0


def _listed(values: Sequence[Any]) -> str:
    """Return names of operators as a sum, other values as a list."""
    named = all(isinstance(value, str) for value in values)
    return (" + " if named else ", ").join(map(str, values)) or "-"

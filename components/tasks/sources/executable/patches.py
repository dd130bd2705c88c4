"""A text of stack programs of which one is broken, and an issue that says what it should give (SWE-RL)."""

from __future__ import annotations

import random
from typing import Literal

from pydantic import Field

from components.contract.errors import InputError
from components.tasks.domains.edits import Edit, Style, render
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.stack import INPUTS, OPERATIONS, Behaviour, behaviour, is_decided, shortest
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "patches"
ARITY = 2
NAMES = "abcdefgh"
MAX_DRAWS = 20
Fault = Literal["replace", "drop", "insert"]


class PatchesConfig(MadeConfig):
    """How long the text and its programs are, what breaks them, and how an edit is written."""

    lines: int = Field(default=2, ge=1, le=len(NAMES))
    """Programs of the text: the edit has to name the broken one."""
    min_operations: int = Field(default=2, ge=2, le=5)
    """Fewest operations of a program."""
    max_operations: int = Field(default=4, ge=2, le=5)
    """Most operations: with `lines` the knob of difficulty."""
    faults: tuple[Fault, ...] = Field(default=("replace", "drop", "insert"), min_length=1)
    """What happens to one operation of the broken program: other ones are a shift of domain."""
    pairs: int = Field(default=2, ge=1, le=8)
    """Pairs of inputs and wanted output in the issue; the broken program misses the first of them."""
    style: Style = "diff"
    """How edits are written: `-old` and `+new` lines, or SEARCH/REPLACE blocks."""

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def patches(request: SourceRequest, *, config: PatchesConfig) -> SourceRows:
    """Show a text, a line for each program, and an issue behind it: `a o++\\nb s+\\nissue: b 3,2>1 5,0>5`.

    The answer is the edit that restores the program, `-b s+\\n+b s-`. `data` holds the `text`, the `fixed` text and
    the `style`; parts share no behaviour of a repaired program. Reward `diff_similarity` with `edits` compares patches.
    Source: SWE-RL; the texts are ours, and the fault is made.
    """
    levels = shortest(OPERATIONS, ARITY, config.max_operations)
    lengths = [length for length in range(config.min_operations, config.max_operations + 1) if levels[length]]
    if not lengths:
        raise InputError("source patches: no program has that few operations; raise max_operations")
    known = [one for level in levels for one in level]
    return made_rows("patches", request, config, VERIFIER, lambda rng: _draw(config, lengths, known, rng))


def _draw(config: PatchesConfig, lengths: list[int], known: list[Behaviour], rng: random.Random) -> Made | None:
    levels = shortest(OPERATIONS, ARITY, config.max_operations)
    texts = [rng.choice(list(levels[rng.choice(lengths)].values())) for _ in range(config.lines)]
    place = rng.randrange(config.lines)
    right, broken = texts[place], _break(texts[place], rng.choice(config.faults), rng)
    wanted, given = behaviour(right, ARITY), behaviour(broken, ARITY) if broken else ()
    pairs = _pairs(config, wanted, given, known, rng) if wanted != given and broken else None
    if pairs is None:
        return None
    name = NAMES[place]
    shown = " ".join(f"{','.join(map(str, INPUTS[ARITY][pair]))}>{wanted[pair]}" for pair in pairs)
    fixed = [f"{NAMES[index]} {text}" for index, text in enumerate(texts)]
    before = [f"{name} {broken}" if index == place else line for index, line in enumerate(fixed)]
    text = "\n".join(before)
    answer = render([Edit((before[place],), (fixed[place],))], config.style)
    data = {"text": text, "fixed": "\n".join(fixed), "style": config.style, "broken": name}
    return Made(",".join(map(str, wanted)), f"{text}\nissue: {name} {shown}", answer, data)


def _break(program: str, fault: Fault, rng: random.Random) -> str:
    at, other = rng.randrange(len(program)), rng.choice(OPERATIONS)
    if fault == "insert":
        return program[:at] + other + program[at:]
    return program[:at] + (other if fault == "replace" else "") + program[at + 1 :]


def _pairs(
    config: PatchesConfig, wanted: Behaviour, given: Behaviour, known: list[Behaviour], rng: random.Random
) -> list[int] | None:
    """Return the places of pairs that decide on a behaviour, one that the broken program misses first."""
    missed = [place for place in range(len(wanted)) if wanted[place] != given[place]]
    for _ in range(MAX_DRAWS):
        first = rng.choice(missed)
        others = [place for place in range(len(wanted)) if place != first]
        places = [first, *rng.sample(others, config.pairs - 1)]
        if is_decided(known, wanted, places):
            return places
    return None

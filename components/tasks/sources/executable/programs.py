"""Programs of the stack language to be found from inputs and outputs (DRIVE, ReST-RL)."""

from __future__ import annotations

import random
from typing import Annotated

from pydantic import AfterValidator, Field

from components.contract.errors import InputError
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.stack import INPUTS, OPERATIONS, Behaviour, is_decided, shortest
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "programs"
MAX_DRAWS = 20
"""Draws of the shown pairs for one program."""


def check_operations(operations: str) -> str:
    """Return the operations; raise InputError for one that the language does not have."""
    unknown = set(operations) - set(OPERATIONS)
    if unknown or len(set(operations)) < len(operations):
        raise InputError(f"operations {operations!r}: expected different ones of {OPERATIONS}")
    return operations


class ProgramsConfig(MadeConfig):
    """How long programs are, what they are made of, and how much is shown of them."""

    min_operations: int = Field(default=2, ge=1, le=5)
    """Fewest operations: no shorter program of the same operations does the same."""
    max_operations: int = Field(default=4, ge=1, le=5)
    """Most operations: the knob of difficulty."""
    pairs: int = Field(default=3, ge=1, le=8)
    """Pairs of inputs and output that are shown. Together they fit no other behaviour of as few operations."""
    arity: int = Field(default=2, ge=1, le=2)
    """Inputs, on the stack from the start."""
    operations: Annotated[str, AfterValidator(check_operations)] = OPERATIONS
    """Operations that programs are made of: another set is a shift of domain."""

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def programs(request: SourceRequest, *, config: ProgramsConfig) -> SourceRows:
    """Show `3,4>10 5,1>11 1,2>4`; the answer is a program, `o++`, that passes the tests on all inputs.

    Numbers of operations are equally frequent, and so are the behaviours of a number. `data["tests"]` lists [inputs,
    output]; `data["shown"]` the places of those in the prompt. Parts share no behaviour.
    Source: DRIVE and ReST-RL train on contest problems with tests; the language is ours.
    """
    config.check_order("programs", ("min_operations", "max_operations"))
    levels = shortest(config.operations, config.arity, config.max_operations)
    lengths = [length for length in range(config.min_operations, config.max_operations + 1) if levels[length]]
    if not lengths:
        raise InputError(
            f"source programs: of {config.operations!r} no program has {config.min_operations} to "
            f"{config.max_operations} operations and does something new"
        )
    return made_rows("programs", request, config, VERIFIER, lambda rng: _draw(config, lengths, rng))


def _draw(config: ProgramsConfig, lengths: list[int], rng: random.Random) -> Made | None:
    levels, inputs = shortest(config.operations, config.arity, config.max_operations), INPUTS[config.arity]
    level = levels[rng.choice(lengths)]
    wanted = rng.choice(list(level))
    places = _places(config, wanted, rng)
    if places is None:
        return None
    shown = [f"{','.join(map(str, inputs[place]))}>{wanted[place]}" for place in places]
    data = {
        "tests": [[list(given), output] for given, output in zip(inputs, wanted, strict=True)],
        "shown": places,
        "length": len(level[wanted]),
        "operations": config.operations,
    }
    return Made(",".join(map(str, wanted)), " ".join(shown), level[wanted], data)


def _places(config: ProgramsConfig, wanted: Behaviour, rng: random.Random) -> list[int] | None:
    """Return the places of pairs that decide between all behaviours, or None where a few draws find none."""
    known = [one for level in shortest(config.operations, config.arity, config.max_operations) for one in level]
    for _ in range(MAX_DRAWS):
        places = rng.sample(range(len(wanted)), config.pairs)
        if is_decided(known, wanted, places):
            return places
    return None

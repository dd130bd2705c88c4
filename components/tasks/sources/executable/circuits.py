"""Combinational circuits to be found from their truth table, or written from words (CodeV-R1)."""

from __future__ import annotations

import random
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from components.contract.errors import InputError
from components.tasks.domains import verilog
from components.tasks.domains.circuits import INPUTS, bits, describe, simplest
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "circuits"


def check_names(names: str) -> str:
    """Return the letters that inputs are called by; raise InputError for others or repeated ones."""
    if not (names.isascii() and names.isalpha() and names.islower() and len(set(names)) == len(names)) or "y" in names:
        raise InputError(f"names {names!r}: expected different small letters without y, which is the output")
    return names


class CircuitsConfig(MadeConfig):
    """How large circuits are, what is told of them, and in which language they are written."""

    inputs: int = Field(default=3, ge=2, le=4)
    """Inputs; each of them matters."""
    min_gates: int = Field(default=2, ge=1, le=4)
    """Fewest gates & | ^; no circuit of fewer does the same. ~ on an input is free."""
    max_gates: int = Field(default=3, ge=1, le=4)
    """Most gates: with `inputs` the knob of difficulty."""
    given: Literal["table", "words"] = "table"
    """What the prompt tells: the truth table, or a circuit in words, each gate before what it joins."""
    names: Annotated[str, AfterValidator(check_names)] = Field(default="abcdefgh", min_length=4)
    """Letters that inputs are called by, drawn for each row: other ones are a shift of domain."""
    language: Literal["gates", "verilog"] = "gates"
    """An expression of gates, or a Verilog module `top`, which iverilog runs in the sandbox."""

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not sizes(self):
            raise InputError(
                f"source circuits: no function of all {self.inputs} inputs needs {self.min_gates} to "
                f"{self.max_gates} gates"
            )
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER if self.language == "gates" else "code_tests",)


def circuits(request: SourceRequest, *, config: CircuitsConfig) -> SourceRows:
    """Show `a c d=00111011`, the outputs for inputs 000 to 111; the answer is an expression, `c|a&~d`.

    In words: `or c and a not d`. The testbench has every row of the table. `data` holds the `names` and the
    `table`; for Verilog the tests of verifier `code_tests`. Parts share no function, whatever its inputs are called.
    Source: CodeV-R1; the circuits and their testbench are made.
    """
    if config.language == "verilog":
        verilog.check_installed("circuits")
    verifier = config.verifiers()[0]
    return made_rows("circuits", request, config, verifier, lambda rng: _draw(config, sizes(config), rng))


def sizes(config: CircuitsConfig) -> list[int]:
    """Return the numbers of gates that some function of all inputs needs."""
    levels = simplest(config.inputs, config.max_gates)
    return [gates for gates in range(config.min_gates, config.max_gates + 1) if levels[gates]]


def _draw(config: CircuitsConfig, sizes: list[int], rng: random.Random) -> Made:
    column, text = rng.choice(list(simplest(config.inputs, config.max_gates)[rng.choice(sizes)].items()))
    names = "".join(sorted(rng.sample(config.names, config.inputs)))
    answer = text.translate(str.maketrans(INPUTS[: config.inputs], names))
    table = bits(column, config.inputs)
    told = f"{' '.join(names)}={table}" if config.given == "table" else describe(answer)
    data: dict[str, Any] = {"names": names, "table": table}
    if config.language == "verilog":
        order = [rng.randrange(len(table)) for _ in range(2 * len(table))] + list(range(len(table)))
        rng.shuffle(order)
        data["language"] = "verilog"
        data["prefix"] = verilog.bench(names, order)
        data["tests"] = [{"stdin": "", "stdout": "\n".join(table[row] for row in order)}]
        told, answer = f"verilog {told}", verilog.module(answer, names)
    return Made(table, told, answer, data)

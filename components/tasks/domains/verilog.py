"""Verilog of a circuit: the module, and the testbench that prints its output for inputs in an order of its own."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from components.contract.errors import InputError

TOOL, PACKAGE = "iverilog", "iverilog"


def check_installed(source: str) -> None:
    """Raise InputError, one line that names the package, where Verilog cannot be run."""
    if shutil.which(TOOL) is None:
        raise InputError(f"source {source}: Verilog needs {TOOL}; install Debian's {PACKAGE}, or set language: gates")


def module(expression: str, names: Sequence[str]) -> str:
    """Return the module `top` whose output `y` is an expression of the inputs."""
    return f"module top(input {', '.join(names)}, output y);\nassign y = {expression};\nendmodule"


def bench(names: Sequence[str], order: Sequence[int]) -> str:
    """Return a bench that prints `y` for each row of the truth table in `order`, one in a line.

    The order is drawn for each row of data and not in the prompt: text that prints a known table is wrong.
    """
    width = len(names)
    ports = ", ".join(f".{name}(v[{width - 1 - place}])" for place, name in enumerate(names))
    steps = "\n".join(f'    v = {width}\'d{row}; #1 $display("%b", y);' for row in order)
    return (
        f"module bench;\n  reg [{width - 1}:0] v;\n  wire y;\n  top circuit({ports}, .y(y));\n"
        f"  initial begin\n{steps}\n    $finish;\n  end\nendmodule\n"
    )

"""Commands on what recipes can name: components, operators, methods."""

from __future__ import annotations

from typing import Any

from pipelines.cli.parser.options import command, jobs, json_output, overrides, store
from pipelines.cli.parser.values import positive


def add_catalog_commands(commands: Any) -> None:
    """Add the commands on components and operators."""
    components = command(
        commands, "components", "list components, or show one's ports and parameters", "catalog:components"
    )
    components.add_argument("name", nargs="?", metavar="NAME")
    json_output(components)
    operators = command(commands, "operators", "list operators by slot, or show one's settings", "catalog:operators")
    operators.add_argument("slot", nargs="?", metavar="SLOT")
    operators.add_argument("name", nargs="?", metavar="NAME")
    json_output(operators)


def add_method_commands(commands: Any) -> None:
    """Add the commands on methods."""
    methods = command(commands, "methods", "list methods, or show one: paper, what it is, verdict", "methods:methods")
    methods.set_defaults(instead="; 'posttrain diff A B' shows how two methods differ")
    methods.add_argument("slug", nargs="?", metavar="SLUG", help="only this one, with the sources of its constants")
    json_output(methods)
    diff = command(commands, "diff", "show the stages, slots and constants in which two methods differ", "methods:diff")
    diff.add_argument("a", metavar="A", help="a method")
    diff.add_argument("b", metavar="B")
    json_output(diff)
    reproduce = command(
        commands,
        "reproduce",
        "run a method beside its baseline and test its claim",
        "methods:reproduce",
    )
    reproduce.add_argument("slug", metavar="SLUG", help="a method with a recipe in recipes/methods, or a recipe's path")
    reproduce.add_argument("--seeds", type=positive, metavar="N", help="seeds 0 to N-1 (default: those of the recipe)")
    overrides(reproduce)
    jobs(reproduce)
    store(reproduce)
    json_output(reproduce)
    reproduce.add_argument("--record", action="store_true", help="keep the result beside the method's file, in results")

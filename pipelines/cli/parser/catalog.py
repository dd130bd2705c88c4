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
    _add_methods(commands)
    _add_diff(commands)
    _add_reproduce(commands)
    _add_ablate(commands)


def _add_methods(commands: Any) -> None:
    methods = command(commands, "methods", "list methods, or show one: paper, what it is, verdict", "methods:methods")
    methods.set_defaults(instead="; 'posttrain diff A B' shows how two methods differ")
    methods.add_argument("slug", nargs="?", metavar="SLUG", help="only this one, with the sources of its constants")
    methods.add_argument(
        "--html",
        nargs="?",
        const="methods.html",
        metavar="PATH",
        help="write claims, effects and verdicts as a page (default: methods.html)",
    )
    store(methods)
    json_output(methods)


def _add_diff(commands: Any) -> None:
    diff = command(commands, "diff", "show the stages, slots and constants in which two methods differ", "methods:diff")
    diff.add_argument("a", metavar="A", help="a method")
    diff.add_argument("b", metavar="B")
    json_output(diff)


def _add_reproduce(commands: Any) -> None:
    reproduce = command(
        commands,
        "reproduce",
        "run a method beside its baseline at more and more seeds, and judge its claim",
        "reproduce:reproduce",
    )
    reproduce.add_argument(
        "slug", nargs="?", metavar="SLUG", help="a method with a recipe in recipes/methods, or a recipe's path"
    )
    reproduce.add_argument("--all", action="store_true", help="every method with a recipe, one after the other")
    reproduce.add_argument(
        "--check",
        action="store_true",
        help="run nothing: does the record still speak of recipe and code? exits 1 if not",
    )
    reproduce.add_argument(
        "--confirm",
        action="store_true",
        help="run one recorded seed again; if all its numbers are as recorded, the record speaks of today's code again",
    )
    reproduce.add_argument(
        "--tune",
        action="store_true",
        help="choose the setting of every arm that the hallmark names, on seeds that judge nothing, and keep it",
    )
    reproduce.add_argument(
        "--seeds",
        type=positive,
        metavar="N",
        help="the first N seeds and no more (default: until the claim is decided)",
    )
    overrides(reproduce)
    jobs(reproduce)
    store(reproduce)
    json_output(reproduce)
    reproduce.add_argument("--record", action="store_true", help="keep the result beside the method's file, in results")


def _add_ablate(commands: Any) -> None:
    ablate = command(
        commands,
        "ablate",
        "reset one part of a method at a time, and judge its claim without each",
        "claims.ablate:ablate",
    )
    ablate.add_argument("slug", metavar="SLUG", help="a method with a recipe in recipes/methods, or a recipe's path")
    ablate.add_argument(
        "--seeds", type=positive, metavar="N", help="the first N seeds and no more (default: until all is decided)"
    )
    overrides(ablate)
    jobs(ablate)
    store(ablate)
    json_output(ablate)

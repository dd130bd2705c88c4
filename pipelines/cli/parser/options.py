"""What many commands share: how one is declared, and the options on recipe, run, store and output."""

from __future__ import annotations

import argparse
from typing import Any

from pipelines.cli.parser.values import count, positive
from pipelines.engines.registry import EngineNames
from pipelines.runs.default_store import DEFAULT_STORE, STORE_VARIABLE


def command(commands: Any, name: str, summary: str, handler: str) -> argparse.ArgumentParser:
    """Add a command that the function `handler` ("module:function" below pipelines.cli) runs."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False
    )
    parser.set_defaults(handler=f"pipelines.cli.{handler}", parser=parser, instead="")
    return parser


def recipe(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    """Add the recipe, and what changes it."""
    parser.add_argument("recipe", metavar="RECIPE", nargs=nargs, help="name or path of a recipe")
    overrides(parser)
    parser.add_argument("--seed", type=count, metavar="N", help="seed of the run")


def engine(parser: argparse.ArgumentParser, default: str | None, text: str, *, required: bool = False) -> None:
    """Add --engine."""
    # engine names from packages are looked up when shown or checked, not for every command
    parser.add_argument(
        "--engine", metavar="ENGINE", choices=EngineNames(), default=default, required=required, help=text
    )


def jobs(parser: argparse.ArgumentParser) -> None:
    """Add how a run is started."""
    parser.add_argument("--new", action="store_true", help="start a new run even if an unfinished one could be resumed")
    parser.add_argument("--jobs", type=positive, metavar="N", help="cores for jobs side by side (default: all)")


def overrides(parser: argparse.ArgumentParser) -> None:
    """Add --set."""
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a parameter (rl_steps=10) or any part of the recipe (stages.rl.with.steps=10)",
    )


def run(parser: argparse.ArgumentParser) -> None:
    """Add the run."""
    parser.add_argument("run", metavar="RUN", help="a run's id or the beginning of it, a recipe's name, or latest")


def store(parser: argparse.ArgumentParser) -> None:
    """Add --store."""
    parser.add_argument(
        "--store",
        metavar="URI",
        help=f"a folder or s3://bucket/prefix (default: ${STORE_VARIABLE}, the nearest {DEFAULT_STORE} from here up, "
        "or the one that the file ~/.config/posttrain names)",
    )


def json_output(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")

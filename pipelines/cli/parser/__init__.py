"""The commands and their options. Imports nothing heavy: `posttrain --help` must be instant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from components.contract.errors import nearest
from pipelines.cli.parser.catalog import add_catalog_commands, add_method_commands
from pipelines.cli.parser.models import add_model_commands
from pipelines.cli.parser.recipes import add_recipe_commands
from pipelines.cli.parser.runs import add_run_commands
from pipelines.cli.parser.services import add_service_commands
from pipelines.cli.parser.upkeep import add_upkeep_commands

DESCRIPTION = "Declare a multistage post-training recipe once; run it anywhere; trace every number."
EPILOG = """\
first steps:
  posttrain list                      recipes and runs
  posttrain plan quickstart           what would run, what is cached, and why
  posttrain run quickstart            run it; the same command resumes after a stop
  posttrain lineage MODEL             which data, code and parameters made a model
"""
EVERYDAY = f"""\
{DESCRIPTION}

to start:
  posttrain run quickstart                           the whole story on a laptop, in minutes
  posttrain new my-recipe --from own-data            a recipe of your own: rows, a reward, two learning rates
  posttrain try my_reward.py:reward --data FILE      what a reward says of rows, before anything trains

every day:
  posttrain list                                     recipes and runs
  posttrain validate RECIPE                          every mistake, with file and line
  posttrain plan RECIPE                              what would run, what is cached, and why
  posttrain run RECIPE [--set rl_steps=20]           run it; the same command resumes after a stop
  posttrain show RUN; posttrain compare A B          results, and how two runs differ
  posttrain report RUN; posttrain ui                 a run's page; MLflow
  posttrain lineage MODEL                            which data, code and parameters made a model

to look things up:
  posttrain components NAME; posttrain operators NAME; posttrain methods NAME
  posttrain docs                                     the guides, with search

all commands: posttrain --help; one of them: posttrain COMMAND --help"""


class _Parser(argparse.ArgumentParser):
    """Reports a misspelt command with its nearest match, and every mistake in one line with exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"posttrain: {message} (see {self.prog} --help)\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            near = nearest(str(value), map(str, action.choices))
            hint = f"; did you mean {near!r}?" if near else ""
            known = ", ".join(map(str, action.choices))
            name = {"command": "command"}.get(action.dest, action.option_strings[-1] if action.option_strings else "")
            raise argparse.ArgumentError(None, f"unknown {name or action.dest} {value!r}{hint} (known: {known})")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line's arguments; the command's own parser reports unknown ones."""
    given = sys.argv[1:] if argv is None else argv
    if not given:
        print(EVERYDAY)
        sys.exit(0)
    arguments, unknown = build_parser().parse_known_args(given)
    if unknown:
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}{arguments.instead}")
    return arguments


def build_parser() -> argparse.ArgumentParser:
    """Return the parser; each command sets `handler`, the "module:function" that runs it."""
    parser = _Parser(
        prog="posttrain",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    add_recipe_commands(commands)
    add_run_commands(commands)
    add_model_commands(commands)
    add_upkeep_commands(commands)
    add_catalog_commands(commands)
    add_method_commands(commands)
    add_service_commands(commands)
    return parser


class _Version(argparse.Action):
    def __init__(self, option_strings: list[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"posttrain {version('posttrain')}")
        parser.exit(0)

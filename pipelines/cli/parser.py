"""The commands and their options. Imports nothing heavy: `posttrain --help` must be instant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from components.contract.errors import nearest
from pipelines.cli.model_commands import add_model_commands
from pipelines.engines.registry import DEFAULT, EngineNames
from pipelines.runs.default_store import DEFAULT_STORE, STORE_VARIABLE

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
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    _recipe_commands(commands)
    _run_commands(commands)
    add_model_commands(commands, _command, _store, _json, _positive)
    _upkeep_commands(commands)
    _catalog_commands(commands)
    _method_commands(commands)
    _airflow_commands(commands)
    _other_commands(commands)
    return parser


class _Version(argparse.Action):
    def __init__(self, option_strings: list[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"posttrain {version('posttrain')}")
        parser.exit(0)


def _recipe_commands(commands: Any) -> None:
    run = _command(commands, "run", "run a recipe, or resume a stopped run of it", "runs:run")
    _recipe(run)
    _store(run)
    _json(run)
    _engine(run, DEFAULT, "what orders the jobs: %(choices)s (default: %(default)s)")
    run.add_argument("--new", action="store_true", help="start a new run even if an unfinished one could be resumed")
    run.add_argument("--containers", action="store_true", help="run each job in a container of infra/images")
    run.add_argument("--jobs", type=_positive, metavar="N", help="cores for jobs side by side (default: all)")
    plan = _command(commands, "plan", "show what would run, what is cached and why, on which pools", "recipes:plan")
    _recipe(plan)
    _store(plan)
    _json(plan)
    _engine(plan, None, "also check that this engine can run it: %(choices)s")
    compiled = _command(commands, "compile", "write a recipe as a pipeline of Kubeflow", "compile:compile_file")
    _recipe(compiled)
    _store(compiled)
    compiled.add_argument("--engine", choices=("kubeflow",), default="kubeflow", help="whose pipeline (kubeflow)")
    compiled.add_argument("-o", "--output", metavar="FILE", required=True, help="file to write, or - for stdout")
    _starting_commands(commands)
    validate = _command(commands, "validate", "check recipes and show every mistake with its line", "recipes:validate")
    _recipe(validate, nargs="+")
    _json(validate)


def _starting_commands(commands: Any) -> None:
    new = _command(commands, "new", "write a recipe to start from, with data and reward", "new:new")
    new.add_argument("name", metavar="NAME", help="folder to write; its last part is the recipe's name")
    new.add_argument(
        "--from",
        dest="template",
        metavar="TEMPLATE",
        choices=("quickstart", "gsm8k", "own-data"),
        default="own-data",
        help="what to start from: %(choices)s (default: %(default)s)",
    )
    _json(new)
    tried = _command(commands, "try", "try a reward or a verifier on rows, before anything trains", "trying:try_rows")
    tried.add_argument("operator", metavar="OPERATOR", help="./file.py:function, or the name of a verifier or reward")
    tried.add_argument("--data", metavar="FILE", required=True, help="rows: a JSONL or Parquet file")
    tried.add_argument("--limit", type=_positive, metavar="N", default=10, help="rows to try (default: %(default)s)")
    tried.add_argument(
        "--completions",
        metavar="COLUMN",
        help="judge the completions in this column, not the answer and a wrong one",
    )
    tried.add_argument("--prompt", metavar="COLUMN", default="prompt", help="column of prompts (default: %(default)s)")
    tried.add_argument("--answer", metavar="COLUMN", default="answer", help="column of answers (default: %(default)s)")
    tried.add_argument(
        "--final-answer", action="store_true", help="take only the final answer from the answer column: after ####"
    )
    tried.add_argument(
        "--with",
        dest="settings",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of the operator, such as tolerance=0.01",
    )
    _json(tried)


def _run_commands(commands: Any) -> None:
    listed = _command(commands, "list", "list recipes and runs", "runs:list_all")
    listed.add_argument("what", nargs="?", choices=("recipes", "runs"), help="only these")
    show = _command(commands, "show", "show a run: its stages, its results and where they are", "runs:show")
    _run(show)
    compare = _command(
        commands, "compare", "compare runs, or the arms of a matrix, on the same prompts", "compare:compare"
    )
    compare.add_argument(
        "runs",
        metavar="RUN[:CELL]",
        nargs="+",
        help="id of a run, its beginning, a recipe's name, or latest; or a cell of its matrix, as latest:method=dapo. "
        "All are compared with the first; of one run, all arms with its baseline",
    )
    lineage = _command(commands, "lineage", "show what made an artifact, and what was made of it", "lineage:lineage")
    lineage.add_argument(
        "reference",
        metavar="MODEL",
        help="registered model (name, name@alias, name/version), RUN:stage.port, or digest; "
        "'sync' delivers pending lineage to MLflow",
    )
    lineage.add_argument("--descendants", action="store_true", help="what was made of it, in any run")
    report = _command(
        commands, "report", "make the report of a run, or one of several, and show where it is", "runs:report"
    )
    report.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        help="id of a run, its beginning, a recipe's name, or latest; several (or cells: RUN:arm=x) give one page",
    )
    report.add_argument("--output", metavar="FILE", help="copy the page there")
    for command in (listed, show, compare, lineage, report):
        _store(command)
        _json(command)
    approve = _command(commands, "approve", "approve a stage that waits for a person", "approvals:approve")
    _run(approve)
    approve.add_argument("stage", metavar="STAGE")
    approve.add_argument("--reject", action="store_true", help="refuse it instead")
    _store(approve)


def _upkeep_commands(commands: Any) -> None:
    gc = _command(commands, "gc", "show data that nothing in the store needs, or delete it", "upkeep:gc")
    gc.add_argument("--delete", action="store_true", help="delete it; without this nothing is deleted")
    gc.add_argument(
        "--older-than", type=_duration, metavar="AGE", help="also runs that ended longer ago than this (30d, 12h)"
    )
    gc.add_argument("--keep-last", type=_count, metavar="N", help="also all but the newest N runs of each recipe")
    gc.add_argument("--undelivered", action="store_true", help="also runs whose lineage is not in MLflow yet")
    gc.add_argument("--without-mlflow", action="store_true", help="do not ask MLflow which models it has registered")
    gc.add_argument(
        "--grace", type=_grace, default=86_400.0, metavar="AGE", help="keep data younger than this (default: 24h)"
    )
    pin = _command(commands, "pin", "keep a run or an artifact from gc, or list what is kept", "upkeep:pin")
    pin.add_argument(
        "what", nargs="?", metavar="RUN|MODEL", help="a run, a registered model, RUN:stage.port or a digest"
    )
    pin.add_argument("--note", default="", metavar="TEXT", help="why")
    unpin = _command(commands, "unpin", "unpin a run or an artifact, so that gc may delete it", "upkeep:unpin")
    unpin.add_argument("what", metavar="RUN|MODEL", help="what was pinned")
    verify = _command(commands, "verify", "read every byte of a run, or of the whole store", "upkeep:verify")
    verify.add_argument(
        "run", nargs="?", metavar="RUN", help="a run's id or the beginning of it, a recipe's name, or latest"
    )
    verify.add_argument(
        "--repair", action="store_true", help="move damaged data aside, so that the next run rebuilds it"
    )
    for command in (gc, pin, unpin, verify):
        _store(command)
        _json(command)


def _catalog_commands(commands: Any) -> None:
    components = _command(
        commands, "components", "list components, or show one's ports and parameters", "catalog:components"
    )
    components.add_argument("name", nargs="?", metavar="NAME")
    _json(components)
    operators = _command(commands, "operators", "list operators by slot, or show one's settings", "catalog:operators")
    operators.add_argument("slot", nargs="?", metavar="SLOT")
    operators.add_argument("name", nargs="?", metavar="NAME")
    _json(operators)


def _method_commands(commands: Any) -> None:
    methods = _command(commands, "methods", "list methods, or show one: paper, what it is, verdict", "methods:methods")
    methods.set_defaults(instead="; 'posttrain diff A B' shows how two methods differ")
    methods.add_argument("slug", nargs="?", metavar="SLUG", help="only this one, with the sources of its constants")
    _json(methods)
    diff = _command(
        commands, "diff", "show the stages, slots and constants in which two methods differ", "methods:diff"
    )
    diff.add_argument("a", metavar="A", help="a method")
    diff.add_argument("b", metavar="B")
    _json(diff)
    reproduce = _command(
        commands,
        "reproduce",
        "run a method beside its baseline and test its claim",
        "methods:reproduce",
    )
    reproduce.add_argument("slug", metavar="SLUG", help="a method with a recipe in recipes/methods, or a recipe's path")
    reproduce.add_argument("--seeds", type=_positive, metavar="N", help="seeds 0 to N-1 (default: those of the recipe)")
    _set(reproduce)
    _jobs(reproduce)
    _store(reproduce)
    _json(reproduce)
    reproduce.add_argument("--record", action="store_true", help="keep the result beside the method's file, in results")


def _other_commands(commands: Any) -> None:
    stage = _command(commands, "stage", "run one job from its description file, as containers do", "stage:stage")
    stage.add_argument("file", metavar="JOB.json", help="job description, or - for standard input")
    ui = _command(commands, "ui", "open MLflow on the store's lineage, on this machine only", "ui:ui")
    _store(ui)
    ui.add_argument("--port", type=_port, metavar="N", help="port (default: a free one)")


def _airflow_commands(commands: Any) -> None:
    airflow = commands.add_parser("airflow", help="a local Airflow, and pools in any Airflow", allow_abbrev=False)
    actions = airflow.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=_Parser)
    up = _command(actions, "up", "start Airflow on this machine and keep it until Ctrl-C", "airflow:up")
    _store(up)
    up.add_argument("--port", type=_port, metavar="N", help="port (default: 8080, or a free one)")
    init = _command(actions, "init", "create the pools of pools.yaml that Airflow lacks", "airflow:init")
    _store(init)


def _command(commands: Any, name: str, summary: str, handler: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.", allow_abbrev=False
    )
    parser.set_defaults(handler=f"pipelines.cli.{handler}", parser=parser, instead="")
    return parser


def _recipe(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    parser.add_argument("recipe", metavar="RECIPE", nargs=nargs, help="name or path of a recipe")
    _set(parser)
    parser.add_argument("--seed", type=_count, metavar="N", help="seed of the run")


def _engine(parser: argparse.ArgumentParser, default: str | None, text: str) -> None:
    # engine names from packages are looked up when shown or checked, not for every command
    parser.add_argument("--engine", metavar="ENGINE", choices=EngineNames(), default=default, help=text)


def _jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--new", action="store_true", help="start a new run even if an unfinished one could be resumed")
    parser.add_argument("--jobs", type=_positive, metavar="N", help="cores for jobs side by side (default: all)")


def _set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a parameter (rl_steps=10) or any part of the recipe (stages.rl.with.steps=10)",
    )


def _run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's id or the beginning of it, a recipe's name, or latest")


def _store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store", metavar="URI", help=f"a folder or s3://bucket/prefix (default: ${STORE_VARIABLE} or {DEFAULT_STORE})"
    )


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"got {text[:40]!r}, expected a whole number")
    return int(text)


def _positive(text: str) -> int:
    if _count(text) < 1:
        raise argparse.ArgumentTypeError("expected at least 1")
    return int(text)


def _port(text: str) -> int:
    if _count(text) > 65_535:
        raise argparse.ArgumentTypeError("expected a port up to 65535")
    return int(text)


def _duration(text: str) -> float:
    units = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
    if text[-1:] not in units or not text[:-1].isdecimal() or len(text) > 7:
        raise argparse.ArgumentTypeError(f"got {text[:40]!r}, expected a time such as 30d, 12h or 90m")
    return int(text[:-1]) * units[text[-1]]


def _grace(text: str) -> float:
    if _duration(text) < 3600:
        raise argparse.ArgumentTypeError("expected at least 1h: running jobs rely on it")
    return _duration(text)

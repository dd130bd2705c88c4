"""Commands on recipes: run, plan, compile, validate, and those that start one."""

from __future__ import annotations

from typing import Any

from pipelines.cli.parser.options import command, engine, jobs, json_output, overrides, recipe, store
from pipelines.cli.parser.options import run as forked_run
from pipelines.cli.parser.values import positive
from pipelines.engines.registry import DEFAULT, EngineNames


def add_recipe_commands(commands: Any) -> None:
    """Add the commands."""
    run = command(commands, "run", "run a recipe, or resume a stopped run of it", "runs:run")
    recipe(run)
    store(run)
    json_output(run)
    _how(run)
    run.add_argument(
        "--watch",
        action="store_true",
        help="wait for the times and data of the recipe's schedule, or changes of its inputs, and run at each",
    )
    _cheapest(run)
    _fork_command(commands)
    _move_command(commands)
    _rebuild_commands(commands)
    plan = command(commands, "plan", "show what would run, what is cached and why, on which pools", "recipes:plan")
    recipe(plan)
    store(plan)
    json_output(plan)
    engine(plan, None, "also check that this engine can run it: %(choices)s")
    _cheapest(plan)
    compiled = command(commands, "compile", "write a recipe as a pipeline of Kubeflow", "compile:compile_file")
    recipe(compiled)
    store(compiled)
    compiled.add_argument("--engine", choices=("kubeflow",), default="kubeflow", help="whose pipeline (kubeflow)")
    compiled.add_argument("-o", "--output", metavar="FILE", required=True, help="file to write, or - for stdout")
    _audit_command(commands)
    _schedule_command(commands)
    _starting_commands(commands)
    validate = command(commands, "validate", "check recipes and show every mistake with its line", "recipes:validate")
    recipe(validate, nargs="+")
    json_output(validate)


def _audit_command(commands: Any) -> None:
    audited = command(
        commands,
        "audit-reward",
        "play empty, wrong, padded and injected responses against a recipe's rewards, before it trains on them",
        "auditing:audit_reward",
    )
    recipe(audited)
    audited.add_argument("--stage", metavar="STAGE", help="only this stage's reward (default: of every rl stage)")
    store(audited)
    json_output(audited)
    jobs(audited)


def _how(parser: Any) -> None:
    """Add where and how a run goes on."""
    engine(parser, DEFAULT, "what orders the jobs: %(choices)s (default: %(default)s)")
    parser.add_argument("--new", action="store_true", help="start a new run even if an unfinished one could be resumed")
    parser.add_argument("--containers", action="store_true", help="run each job in a container of infra/images")
    parser.add_argument("--jobs", type=positive, metavar="N", help="cores for jobs side by side (default: all)")


def _cheapest(parser: Any) -> None:
    """Add the choice of pools by their price."""
    parser.add_argument(
        "--cheapest", action="store_true", help="take the pool on which each stage costs least for the same progress"
    )


def _fork_command(commands: Any) -> None:
    fork = command(
        commands, "fork", "go on from a kept checkpoint of a run, with other parameters from there on", "forking:fork"
    )
    forked_run(fork)
    fork.add_argument(
        "--at", required=True, metavar="STAGE@STEP", help="a checkpoint that `keep_partial: every N` kept, as rl@40"
    )
    overrides(fork)
    fork.add_argument("--name", metavar="NAME", help="what the new run's id begins with (default: the recipe's name)")
    fork.add_argument("--recipe", metavar="RECIPE", help="the run's recipe, if it is not where it was")
    store(fork)
    json_output(fork)
    _how(fork)


def _move_command(commands: Any) -> None:
    move = command(
        commands, "move", "end a run at its next step, and go on from there on another engine", "moving:move"
    )
    forked_run(move)
    move.add_argument(
        "--to", metavar="ENGINE", choices=EngineNames(), required=True, help="where it goes on: %(choices)s"
    )
    move.add_argument(
        "--wait",
        type=positive,
        default=600,
        metavar="SECONDS",
        help="how long its stages have to reach a step's border (default: %(default)s)",
    )
    move.add_argument("--recipe", metavar="RECIPE", help="the run's recipe, if it is not where it was")
    overrides(move)
    _cheapest(move)
    store(move)
    json_output(move)
    move.add_argument("--containers", action="store_true", help="run each job in a container of infra/images")
    move.add_argument("--jobs", type=positive, metavar="N", help="cores for jobs side by side (default: all)")


def _rebuild_commands(commands: Any) -> None:
    rebuild = command(
        commands,
        "rebuild",
        "run a run's recipe again without a source, and sign what that changed",
        "rebuilding:rebuild",
    )
    forked_run(rebuild)
    rebuild.add_argument(
        "--without", action="append", required=True, metavar="source:NAME", help="a source to leave out (repeatable)"
    )
    rebuild.add_argument("--key", required=True, metavar="FILE", help="private ed25519 key that signs the statement")
    rebuild.add_argument("--output", metavar="FILE", help="the statement (default: RUN.intoto.json)")
    rebuild.add_argument("--plan", action="store_true", help="only tell what would run, and what it would cost")
    rebuild.add_argument("--everything", action="store_true", help="rebuild even if every stage depends on the source")
    rebuild.add_argument("--recipe", metavar="RECIPE", help="the run's recipe, if it is not where it was")
    store(rebuild)
    json_output(rebuild)
    _how(rebuild)
    statement = command(commands, "statement", "verify the signed statement of a rebuild", "rebuilding:statement")
    statement.add_argument("file", metavar="FILE", help="a statement that rebuild wrote")
    statement.add_argument("--key", required=True, metavar="FILE", help="the public key (PEM or OpenSSH)")
    store(statement)
    json_output(statement)


def _schedule_command(commands: Any) -> None:
    kept = command(
        commands, "schedule", "let an engine start runs by a recipe's schedule; list schedules", "schedules:schedule"
    )
    recipe(kept, nargs="?")
    store(kept)
    json_output(kept)
    engine(kept, None, "what keeps the schedule: %(choices)s", required=True)
    ending = kept.add_mutually_exclusive_group()
    ending.add_argument("--off", action="store_true", help="start no more runs")
    ending.add_argument("--delete", action="store_true", help="start no more runs, and forget the schedule")


def _starting_commands(commands: Any) -> None:
    new = command(commands, "new", "write a recipe to start from, with data and reward", "new:new")
    new.add_argument("name", metavar="NAME", help="folder to write; its last part is the recipe's name")
    new.add_argument(
        "--from",
        dest="template",
        metavar="TEMPLATE",
        choices=("quickstart", "dpo", "gsm8k", "own-data"),
        default="own-data",
        help="what to start from: %(choices)s (default: %(default)s)",
    )
    json_output(new)
    tried = command(commands, "try", "try a reward or a verifier on rows, before anything trains", "trying:try_rows")
    tried.add_argument("operator", metavar="OPERATOR", help="./file.py:function, or the name of a verifier or reward")
    tried.add_argument("--data", metavar="FILE", required=True, help="rows: a JSONL or Parquet file")
    tried.add_argument("--limit", type=positive, metavar="N", default=10, help="rows to try (default: %(default)s)")
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
    json_output(tried)

"""Commands on runs: list, show, compare, lineage, report, trace, replay, rescore, bisect, approve."""

from __future__ import annotations

from typing import Any

from pipelines.cli.parser.options import command, json_output, run, store
from pipelines.cli.parser.values import positive, steps


def add_run_commands(commands: Any) -> None:
    """Add the commands."""
    listed = command(commands, "list", "list recipes and runs", "runs:list_all")
    listed.add_argument("what", nargs="?", choices=("recipes", "runs"), help="only these")
    show = command(commands, "show", "show a run: its stages, its results and where they are", "showing:show")
    run(show)
    compare = command(
        commands, "compare", "compare runs, or the arms of a matrix, on the same prompts", "compare:compare"
    )
    compare.add_argument(
        "runs",
        metavar="RUN[:CELL]",
        nargs="+",
        help="id of a run, its beginning, a recipe's name, or latest; or a cell of its matrix, as latest:method=dapo. "
        "All are compared with the first; of one run, all arms with its baseline",
    )
    lineage = command(commands, "lineage", "show what made an artifact, and what was made of it", "lineage:lineage")
    lineage.add_argument(
        "reference",
        metavar="MODEL",
        help="registered model (name, name@alias, name/version), RUN:stage.port, or digest; "
        "'sync' delivers pending lineage to MLflow",
    )
    lineage.add_argument("--descendants", action="store_true", help="what was made of it, in any run")
    report = command(
        commands, "report", "make the report of a run, or one of several, and show where it is", "runs:report"
    )
    report.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        help="id of a run, its beginning, a recipe's name, or latest; several (or cells: RUN:arm=x) give one page",
    )
    report.add_argument("--output", metavar="FILE", help="copy the page there")
    trace = command(
        commands,
        "trace",
        "follow a source to all it touched, or an item back to rows and rollouts",
        "tracing:trace",
    )
    trace.add_argument(
        "what", metavar="source:NAME|RUN[:STAGE]", help="a source by name or domain; or an evaluation, for its items"
    )
    trace.add_argument("item", nargs="?", metavar="ITEM", help="id of one item (default: the failed ones)")
    trace.add_argument("--right", action="store_true", help="list the items that were solved most, not least")
    trace.add_argument("--limit", type=positive, default=10, metavar="N", help="most items, or rows (default: 10)")
    for parser in (listed, show, compare, lineage, report, trace):
        store(parser)
        json_output(parser)
    _add_recorded(commands)
    _bisect_command(commands)
    approve = command(commands, "approve", "approve a stage that waits for a person", "approvals:approve")
    run(approve)
    approve.add_argument("stage", metavar="STAGE")
    approve.add_argument("--reject", action="store_true", help="refuse it instead")
    store(approve)


def _add_recorded(commands: Any) -> None:
    """Add the commands on the recorded steps of a training."""
    replay = command(
        commands, "replay", "make a step of RL again, bit for bit, or say where it parted", "replaying:replay"
    )
    _recorded_run(replay)
    replay.add_argument("--step", type=positive, metavar="N", required=True, help="the step, from 1")
    replay.add_argument(
        "--from-start", action="store_true", help="make all steps again where no checkpoint before it was kept"
    )
    store(replay)
    json_output(replay)
    rescore = command(
        commands, "rescore", "judge recorded responses of RL again, and show what would change", "rescoring:rescore"
    )
    _recorded_run(rescore)
    operator = "a name, ./file.py:function, or {name: ..., settings} as in a recipe"
    rescore.add_argument(
        "--reward",
        action="append",
        default=[],
        metavar="REWARD",
        help=f"in place of the stage's: {operator}; repeatable",
    )
    rescore.add_argument("--combine", metavar="COMBINE", help="how these become one, in place of the stage's")
    rescore.add_argument("--verifier", metavar="VERIFIER", help=f"in place of the rows' own: {operator}")
    rescore.add_argument(
        "--in",
        dest="further",
        action="append",
        default=[],
        metavar="PORT=MODEL",
        help="a model of the store for a reward that asks teachers, scorers or judges",
    )
    rescore.add_argument("--steps", type=steps, metavar="N|A-B", help="only this step, or these (default: all kept)")
    rescore.add_argument(
        "--html",
        nargs="?",
        const="rescore.html",
        metavar="FILE",
        help="write the groups that flip, and each step, as a page (default: rescore.html)",
    )
    store(rescore)
    json_output(rescore)


def _recorded_run(parser: Any) -> None:
    parser.add_argument(
        "run",
        metavar="RUN[:STAGE]",
        help="a run's id, the beginning of it, a recipe's name, or latest; and its rl stage",
    )


def _bisect_command(commands: Any) -> None:
    bisect = command(
        commands, "bisect", "find which difference between two recipes or runs moved a metric", "bisecting:bisect"
    )
    ends = "a recipe's name or file, or a run's id; with @COMMIT run by that commit of posttrain"
    bisect.add_argument("good", metavar="GOOD", help=ends)
    bisect.add_argument("bad", metavar="BAD", help="the other end, named in the same ways")
    bisect.add_argument("--metric", metavar="STAGE.METRIC", required=True, help="such as evaluate.pass_at_1")
    bisect.add_argument("--plan", action="store_true", help="show the differences and what it will cost; run nothing")
    seeds = "seeds of each half at first, at least 2 (default: %(default)s)"
    bisect.add_argument("--seeds", type=positive, metavar="N", default=3, help=seeds)
    most = "seeds of an undecided half at most (default: %(default)s)"
    bisect.add_argument("--max-seeds", type=positive, metavar="N", default=8, help=most)
    halves = "halves to try at most (default: %(default)s)"
    bisect.add_argument("--max-halves", type=positive, metavar="N", default=40, help=halves)
    bisect.add_argument("--output", metavar="FILE", help="copy the page there")
    bisect.add_argument("--jobs", type=positive, metavar="N", help="cores for jobs side by side (default: all)")
    store(bisect)
    json_output(bisect)

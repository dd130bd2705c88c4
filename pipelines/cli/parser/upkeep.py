"""Commands on a store: gc, pin, unpin, verify."""

from __future__ import annotations

from typing import Any

from pipelines.cli.parser.options import command, json_output, store
from pipelines.cli.parser.values import count, duration, grace


def add_upkeep_commands(commands: Any) -> None:
    """Add the commands."""
    gc = command(commands, "gc", "show data that nothing in the store needs, or delete it", "upkeep:gc")
    gc.add_argument("--delete", action="store_true", help="delete it; without this nothing is deleted")
    gc.add_argument(
        "--older-than", type=duration, metavar="AGE", help="also runs that ended longer ago than this (30d, 12h)"
    )
    gc.add_argument("--keep-last", type=count, metavar="N", help="also all but the newest N runs of each recipe")
    gc.add_argument("--undelivered", action="store_true", help="also runs whose lineage is not in MLflow yet")
    gc.add_argument("--without-mlflow", action="store_true", help="do not ask MLflow which models it has registered")
    gc.add_argument(
        "--grace", type=grace, default=86_400.0, metavar="AGE", help="keep data younger than this (default: 24h)"
    )
    pin = command(commands, "pin", "keep a run or an artifact from gc, or list what is kept", "upkeep:pin")
    pin.add_argument(
        "what", nargs="?", metavar="RUN|MODEL", help="a run, a registered model, RUN:stage.port or a digest"
    )
    pin.add_argument("--note", default="", metavar="TEXT", help="why")
    unpin = command(commands, "unpin", "unpin a run or an artifact, so that gc may delete it", "upkeep:unpin")
    unpin.add_argument("what", metavar="RUN|MODEL", help="what was pinned")
    verify = command(commands, "verify", "read every byte of a run, or of the whole store", "upkeep:verify")
    verify.add_argument(
        "run", nargs="?", metavar="RUN", help="a run's id or the beginning of it, a recipe's name, or latest"
    )
    verify.add_argument(
        "--repair", action="store_true", help="move damaged data aside, so that the next run rebuilds it"
    )
    for parser in (gc, pin, unpin, verify):
        store(parser)
        json_output(parser)

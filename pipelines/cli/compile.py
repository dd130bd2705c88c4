"""posttrain compile: write a recipe as a file for another orchestrator."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from components.contract.errors import InputError
from pipelines.cli.output import print_text
from pipelines.language.whole_file import write_whole
from pipelines.runs.default_store import STORE_VARIABLE


def compile_file(arguments: argparse.Namespace) -> int:
    """Write the pipeline of a recipe; nothing is submitted."""
    text = compiled(arguments, store_default(arguments))
    if arguments.output == "-":
        sys.stdout.write(text)
        return 0
    target = Path(arguments.output)
    try:
        write_whole(target, text)
    except OSError as error:
        raise InputError(f"{target}: {error.strerror}") from None
    print_text(f"{target}: {len(text):,} bytes; upload it to Kubeflow, or run it with posttrain run --engine kubeflow")
    return 0


def compiled(arguments: argparse.Namespace, store: str | None) -> str:
    """Return the requested pipeline; raise InputError if kfp is not installed."""
    from components.runtime.ledger.code_trees import publish_code
    from components.runtime.store import open_store
    from pipelines.engines.kubeflow.engine import KubeflowEngine
    from pipelines.engines.refusals import schedule_refusals
    from pipelines.recipe.recipe import load_recipe

    engine = KubeflowEngine()
    engine.check_machine()  # first: reading a recipe takes longer
    recipe = load_recipe(arguments.recipe, arguments.overrides, seed=arguments.seed, whole=True)
    for line in schedule_refusals(engine, recipe.schedule):
        print(f"note: {line}", file=sys.stderr)
    if recipe.trees:
        if store is None:
            raise InputError("its packages travel in a store: name the bucket with --store")
        publish_code(open_store(store), [code for stage in recipe.stages for code in stage.code])
    return engine.compile(recipe, store)


def store_default(arguments: argparse.Namespace) -> str | None:
    """Return the default store of the pipeline's runs: the given one, or a bucket from the environment."""
    given: str | None = arguments.store
    if given is not None:
        return given
    known = os.environ.get(STORE_VARIABLE, "")
    return known if "://" in known else None

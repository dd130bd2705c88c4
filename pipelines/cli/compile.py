"""posttrain compile: a recipe as a file that another orchestrator takes."""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from pipelines.language.whole_file import write_whole
from pipelines.runs.default_store import STORE_VARIABLE

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.plan.plan import Plan
    from pipelines.runs.runs import RunResult
    from pipelines.runs.view import RunView


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
    print(f"{target}: {len(text):,} bytes; upload it to Kubeflow, or run it with posttrain run --engine kubeflow")
    return 0


def run_on_kubeflow(plan: Plan, store: Store, view: RunView, *, new: bool) -> RunResult:
    """Run a plan on the Kubeflow that the environment names."""
    require_kfp()
    from pipelines.engines.kubeflow import engine
    from pipelines.engines.kubeflow.client import Account, Client
    from pipelines.engines.kubeflow.compiler.settings import Settings

    account = Account.read()
    settings = Settings.read()
    return engine.run_on_kubeflow(plan, store, Client(account), settings, view=view, new=new)


def compiled(arguments: argparse.Namespace, store: str | None) -> str:
    """Return the pipeline that the arguments ask for; raise InputError where kfp is not installed."""
    require_kfp()
    from pipelines.engines.kubeflow.compiler.compiler import compile_recipe
    from pipelines.engines.kubeflow.compiler.settings import Settings
    from pipelines.recipe.recipe import load_recipe

    recipe = load_recipe(arguments.recipe, arguments.overrides, seed=arguments.seed, whole=True)
    return compile_recipe(recipe, Settings.read(), store=store)


def store_default(arguments: argparse.Namespace) -> str | None:
    """Return the store that runs use unless they name another: the one given, or a bucket of the environment."""
    if arguments.store is not None:
        return arguments.store
    known = os.environ.get(STORE_VARIABLE, "")
    return known if "://" in known else None


def require_kfp() -> None:
    """Raise InputError that says where Kubeflow's libraries are, if this environment has none."""
    if find_spec("kfp") is None:
        how = "make .venv-kubeflow/.installed, then .venv-kubeflow/bin/posttrain in place of posttrain"
        raise InputError(f"Kubeflow's libraries have an environment of their own: {how}")

"""The driver's command: drives one stage on the cluster that its own pod runs in.

python -m pipelines.engines.driver.command --store URI --run RUN --stage STAGE --pool JSON --cluster JSON
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from typing import Any, NoReturn

from components.contract.errors import InputError, PosttrainError
from components.contract.terminal import print_error
from components.runtime.job.process import REFUSED
from pipelines.engines.driver.api import Cluster
from pipelines.engines.driver.driver import Driver, Stopped
from pipelines.engines.driver.patience import Clock
from pipelines.engines.driver.stage import DrivenStage
from pipelines.engines.shared.pod import PodSettings
from pipelines.recipe.pools import Pool


def drive(
    run: DrivenStage,
    arguments: argparse.Namespace,
    *,
    retried: bool = False,
    cluster: Cluster | None = None,
    clock: Clock | None = None,
) -> int:
    """Drive a stage with what the command line says; return the exit code of a stage."""
    if run.job is None:
        return 0
    signal.signal(signal.SIGTERM, _stop)
    pool, settings = Pool.model_validate_json(arguments.pool), settings_of(arguments.cluster)
    driver = Driver(run, pool, settings, cluster or Cluster.inside(), clock=clock)
    return driver.drive(retried=retried)


def stage_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser for what everything is told that works for one stage of a run."""
    parser = argparse.ArgumentParser(description=description)
    for name in ("store", "run", "stage"):
        parser.add_argument(f"--{name}", required=True)
    return parser


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add what a driver on the cluster is told beside."""
    parser.add_argument("--pool", required=True, help="the pool, JSON")
    parser.add_argument("--cluster", required=True, help="image, namespace, account and names of secrets, JSON")


def driver_arguments(pool: Pool, settings: PodSettings, image: str) -> list[str]:
    """Return what tells a driver of its pool, and of the cluster; `image` is that of the stage."""
    cluster = {
        "image": image,
        "namespace": settings.namespace,
        "service_account": settings.service_account,
        "secrets": list(settings.secrets),
        "config_maps": list(settings.config_maps),
    }
    return ["--pool", pool.model_dump_json(exclude_defaults=True), "--cluster", json.dumps(cluster)]


def settings_of(text: str) -> PodSettings:
    """Return what `driver_arguments` wrote of the cluster."""
    told = json.loads(text)
    image = told.pop("image")
    return PodSettings(images={"cpu": image, "gpu": image}, **{key: _fixed(value) for key, value in told.items()})


def _fixed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _stop(number: int, frame: Any) -> NoReturn:
    raise Stopped(f"stopped by {signal.Signals(number).name}; its nodes are freed")


def exit_code(error: PosttrainError) -> int:
    """Return the exit code of a driver that an error ended."""
    return REFUSED if isinstance(error, InputError) else error.exit_code


def main() -> int:
    """Drive one stage; the exit code is that of a stage."""
    parser = stage_parser("Run a stage of a run on a cluster.")
    add_cluster(parser)
    arguments = parser.parse_args()
    try:
        return drive(DrivenStage.find(arguments.store, arguments.run, arguments.stage), arguments)
    except PosttrainError as error:
        print_error(error)
        return exit_code(error)


if __name__ == "__main__":
    sys.exit(main())

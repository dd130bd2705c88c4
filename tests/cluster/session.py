"""One cluster under test: how it is reached, where its store is, and what is kept between two calls of the command."""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from components.contract.errors import InputError
from components.runtime.store import Store, open_store
from pipelines.engines.driver.api import Cluster
from pipelines.language.whole_file import write_whole
from tests.cluster.going import Going, start_cli
from tests.cluster.kubectl import Kubectl, KubectlFailed

NAMESPACE, KUBEFLOW, AIRFLOW = "posttrain", "kubeflow", "airflow"
CONFIG_MAP = "posttrain"
PANELS = {
    "POSTTRAIN_KUBEFLOW_URL": (KUBEFLOW, "ml-pipeline-ui", 80),
    "POSTTRAIN_AIRFLOW_URL": (AIRFLOW, "airflow-api-server", 8080),
}
"""Variable with an engine's address -> namespace, service and port where it is without one."""
STORE_SECRET = "object-store"
"""Secret of overlays/local with the keys of its object store."""
_INSIDE = re.compile(r"https?://([a-z0-9-]+)\.([a-z0-9-]+)\.svc(?:\.cluster\.local)?:(\d+)")


class LeftOut(Exception):
    """Why a step was not possible."""


Start = Callable[["Session", str, str], Going]
"""Starts quickstart on an engine for a step, as a command of ours."""


@dataclass
class Session:
    """What steps work with."""

    kubectl: Kubectl
    cluster: Cluster
    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    """Variables of our commands."""
    namespace: str = NAMESPACE
    start: Start = start_cli
    opened: Callable[[str], Store] = open_store
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic
    _store: Store | None = None

    @property
    def store(self) -> Store:
        """Return the store that the cluster's ConfigMap names; raise LeftOut without one."""
        if self._store is None:
            if not self.environ.get("POSTTRAIN_STORE"):
                raise LeftOut(f"there is no ConfigMap {CONFIG_MAP} in {self.namespace}: run the step install first")
            self._store = self.opened(self.environ["POSTTRAIN_STORE"])
        return self._store

    @property
    def tracking_uri(self) -> str:
        """Return MLflow's address as pods know it: the deliverer's cursor goes by that."""
        return self.environ.get("MLFLOW_TRACKING_URI", "")

    def seed(self, step: str) -> int:
        """Return the seed of a step's run: new with every folder, so that no stage is cached, and kept in it."""
        path = self.folder / "seeds.json"
        kept: dict[str, int] = json.loads(path.read_text()) if path.is_file() else {}
        if step not in kept:
            kept[step] = secrets.randbelow(2**31 - 1)
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(kept, indent=1) + "\n")
        return kept[step]

    def forget(self, step: str) -> None:
        """Let the next run of a step be a new one."""
        path = self.folder / "seeds.json"
        kept = json.loads(path.read_text()) if path.is_file() else {}
        if kept.pop(step, None) is not None:
            write_whole(path, json.dumps(kept, indent=1) + "\n")


@contextmanager
def opened(kubectl: Kubectl, folder: Path, environ: Mapping[str, str] = os.environ) -> Iterator[Session]:
    """Yield the session of a cluster; what it reaches the cluster by ends with it."""
    with ExitStack() as stack:
        url = stack.enter_context(kubectl.proxy())
        told = dict(environ)
        told.setdefault("POSTTRAIN_RUNS_ON", "pod")
        told.setdefault("POSTTRAIN_KUBEFLOW_SERVICE_ACCOUNT", "posttrain")
        _reach_panels(kubectl, told, stack)
        _reach_store(kubectl, told, stack)
        os.environ.update({name: told[name] for name in told if name.startswith("AWS_")})
        yield Session(kubectl, Cluster(url), folder, told)


def _reach_panels(kubectl: Kubectl, told: dict[str, str], stack: ExitStack) -> None:
    """Make the engines' addresses known where they run inside the cluster and nobody names another."""
    for variable, (namespace, service, port) in PANELS.items():
        if variable not in told and kubectl.get("service", service, namespace):
            told[variable] = stack.enter_context(kubectl.forward(namespace, service, port))


def _reach_store(kubectl: Kubectl, told: dict[str, str], stack: ExitStack) -> None:
    """Take the store and MLflow from the cluster's ConfigMap; an object store inside the cluster becomes ours."""
    found = kubectl.get("configmap", CONFIG_MAP, NAMESPACE)
    if found is None:
        return
    told |= found["data"]
    inside = _INSIDE.fullmatch(told.get("AWS_ENDPOINT_URL", ""))
    if inside is None:
        return
    keys = kubectl.get("secret", STORE_SECRET, inside[2])
    if keys is None:
        raise InputError(f"the Secret {STORE_SECRET} is not in {inside[2]}: see infra/kubernetes/README.md")
    told |= {name: base64.b64decode(value).decode() for name, value in keys["data"].items()}
    try:
        told["AWS_ENDPOINT_URL"] = stack.enter_context(kubectl.forward(inside[2], inside[1], int(inside[3])))
    except KubectlFailed:  # it does not run yet: the step install waits for it, and what comes then opens it anew
        del told["POSTTRAIN_STORE"]
    names = "+".join(("POSTTRAIN_STORE", "MLFLOW_TRACKING_URI", "AWS_REGION", "AWS_ENDPOINT_URL"))
    told.setdefault("POSTTRAIN_KUBEFLOW_CONFIG_MAPS", f"{CONFIG_MAP}:{names}")
    login = "mlflow-stage:MLFLOW_TRACKING_USERNAME+MLFLOW_TRACKING_PASSWORD"
    told.setdefault("POSTTRAIN_KUBEFLOW_SECRETS", f"{login},{STORE_SECRET}:{'+'.join(sorted(keys['data']))}")
    told.setdefault("POSTTRAIN_POD_SECRETS", f"mlflow-stage,{STORE_SECRET}")

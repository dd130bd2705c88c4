"""The locks of images: the versions that everything is tested with, and what executors need."""

from __future__ import annotations

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.infra.conftest import INFRA

REQUIREMENTS = INFRA / "requirements"


def test_the_gpu_image_holds_the_versions_of_the_stages() -> None:
    stages, gpu = _pins("stages"), _pins("gpu")
    lines = [line for line in (REQUIREMENTS / "gpu.in").read_text().splitlines() if line and line[0] != "#"]
    own = {canonicalize_name(Requirement(line).name) for line in lines}
    assert own <= gpu.keys()
    assert len(stages) > 100
    assert {name: gpu.get(name) for name in stages if name not in own} == {
        name: version for name, version in stages.items() if name not in own
    }, "run: make lock-gpu"


def _pins(name: str) -> dict[str, str]:
    lines = (REQUIREMENTS / f"{name}.lock").read_text().splitlines()
    return dict(line.split("==") for line in lines if line[0] != "#")


def test_the_image_of_airflow_holds_what_its_executors_need() -> None:
    locked = _pins("airflow-cluster")
    needed = {"KubernetesExecutor": {"apache-airflow-providers-cncf-kubernetes"}, "LocalExecutor": set()}
    needed["CeleryExecutor"] = {"apache-airflow-providers-celery", "celery", "redis"}
    named = [yaml.safe_load(path.read_text()).get("executor") for path in (INFRA / "airflow").glob("values*.yaml")]
    executors = {name for name in named if name}
    assert "CeleryExecutor" in executors
    for name in executors:
        assert needed[name] <= locked.keys()
    # its provider imports what 5.7 has moved
    assert locked["celery"] == "5.6.3" and locked["apache-airflow-providers-celery"] == "3.26.0"

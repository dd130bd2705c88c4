"""Steps: quickstart on Kubeflow and on Airflow, to its end."""

from __future__ import annotations

from tests.cluster.act import Act
from tests.cluster.checks import record_of
from tests.cluster.outcome import Result
from tests.cluster.session import PANELS, LeftOut, Session

ADDRESS = {"kubeflow": "POSTTRAIN_KUBEFLOW_URL", "airflow": "POSTTRAIN_AIRFLOW_URL"}
LOGIN = "POSTTRAIN_AIRFLOW_USER"
IMAGE = "POSTTRAIN_IMAGE_CPU"


def need_engine(session: Session, engine: str) -> None:
    """Raise LeftOut with what is missing to run something on an engine."""
    variable = ADDRESS[engine]
    if variable not in session.environ:
        namespace, service, _ = PANELS[variable]
        raise LeftOut(f"no {engine}: there is no service {service} in {namespace}, and {variable} is not set")
    if engine == "airflow" and LOGIN not in session.environ:
        raise LeftOut(f"{LOGIN} is not set: who may start a DAG (infra/airflow/README.md)")
    if engine == "kubeflow" and IMAGE not in session.environ:
        raise LeftOut(f"{IMAGE} is not set: name@sha256:<digest> of an image that the cluster can pull")


def kubeflow(session: Session) -> Result:
    """Run quickstart on Kubeflow; every stage is a Job of its driver."""
    return whole_run(session, "kubeflow", "kubeflow")


def airflow(session: Session) -> Result:
    """Run quickstart on Airflow; every stage is a pod of its task."""
    return whole_run(session, "airflow", "airflow")


def whole_run(session: Session, engine: str, step: str) -> Result:
    """Run quickstart to its end, and check it."""
    need_engine(session, engine)
    act = Act.begin(session, engine, step)
    try:
        act.end()
    finally:
        act.leave()
    return told(act, [])


def told(act: Act, wrong: list[str], said: str = "") -> Result:
    """Return what came of a run: what a step says and found wrong, and what does not hold of any run."""
    found = [*wrong, *act.wrong()]
    run = record_of(act.session.store, act.run_id)
    stages = {
        name: {"cache": entry["cache"], "works": sorted(act.seen.works(name))} for name, entry in run.stages.items()
    }
    begun = f"run {act.run_id}: {len(run.stages)} stages, {len(act.seen.pods)} pods"
    return Result(f"{said}; {begun}" if said else begun, found, {"run": act.run_id, "stages": stages})

"""The steps of `make test-cluster`, in their order, each with what must hold afterwards."""

from __future__ import annotations

from tests.cluster import engines, faults, install, stopping
from tests.cluster.outcome import Step

RUN = "the run succeeds, and what holds of every run"
STEPS = (
    Step("look", "what the cluster has and lacks", "nothing is changed", install.look),
    Step(
        "install",
        "namespace, accounts, MLflow, lineage",
        "Deployments get ready; drivers have their rights",
        install.install,
    ),
    Step("store", "the store, from here", "it is reached", install.store),
    Step("kubeflow", "quickstart on Kubeflow", RUN, engines.kubeflow),
    Step("airflow", "quickstart on Airflow", RUN, engines.airflow),
    Step("pods", "the pod of a stage is deleted", f"the stage runs again; {RUN}", faults.pods),
    Step("airflow-pods", "the same on Airflow", f"the stage runs again; {RUN}", faults.airflow_pods),
    Step("driver", "the driver of a stage is killed", f"another goes on with the same work; {RUN}", faults.driver),
    Step("drain", "the node of a stage is drained", f"it counts as the cluster's doing; {RUN}", faults.drain),
    Step("quota", "the namespace takes no pod", f"the reason is told; {RUN}", faults.quota),
    Step(
        "delete",
        "a run is deleted",
        "nothing of it is left; the same command goes on, and repeats nothing",
        stopping.delete,
    ),
    Step("token", "our login expires", f"it is told, and a renewed one goes on; {RUN}", stopping.token),
    Step("clean", "what was made is removed", "nothing else is", install.clean, by_name=True),
)

"""Steps: what the cluster has, what is put into it where it is missing, and its removal."""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.faults import can_take_pods, made_of
from tests.cluster.kubectl import KubectlFailed
from tests.cluster.made import Made
from tests.cluster.outcome import Result
from tests.cluster.session import AIRFLOW, KUBEFLOW, STORE_SECRET, LeftOut, Session

ROOT = Path(__file__).parents[2]
OVERLAYS = ROOT / "infra" / "kubernetes" / "overlays"
OVERLAY, INSTALLS = "OVERLAY", "INSTALL"
IMAGE = "POSTTRAIN_IMAGE_CPU"
BUILT = "posttrain-cpu"
READY_SECONDS = 900
GROUPS = {
    "JobSet": "jobsets.jobset.x-k8s.io",
    "Kueue": "clusterqueues.kueue.x-k8s.io",
    "Kubeflow Trainer": "trainjobs.trainer.kubeflow.org",
    "Argo Workflows (Kubeflow Pipelines)": "workflows.argoproj.io",
}
PIPELINES = "github.com/kubeflow/pipelines/manifests/kustomize"
DRIVERS_DO = (
    *((verb, "jobs.batch") for verb in ("create", "get", "list", "delete")),
    *((verb, "leases.coordination.k8s.io") for verb in ("create", "get", "list", "update", "delete")),
    ("list", "pods"),
    ("get", "pods/log"),
    ("list", "events"),
)
"""What drivers ask of the API server on every cluster; the role run-stages grants it (tests/infra)."""
FOLDERS = ("cluster-scoped-resources", "env/platform-agnostic")


def facts(session: Session) -> dict[str, str]:
    """Return what every result says of the cluster."""
    version = yaml.safe_load(session.kubectl.said("version", "-o", "yaml")).get("serverVersion", {})
    nodes = session.kubectl.items("nodes")
    ready = sum(map(can_take_pods, nodes))
    return {
        "context": session.kubectl.context,
        "server": version.get("gitVersion", "unknown"),
        "nodes": f"{len(nodes)}, {ready} of them ready for pods",
    }


def look(session: Session) -> Result:
    """Say what the cluster has and lacks; nothing is changed."""
    found = {name: session.kubectl.get("crd", crd) is not None for name, crd in GROUPS.items()}
    spaces = {name: session.kubectl.get("namespace", name) is not None for name in ("posttrain", KUBEFLOW, AIRFLOW)}
    lacks = [name for name, there in {**found, **spaces}.items() if not there]
    said = f"lacks {', '.join(lacks)}" if lacks else "has all that is looked for"
    return Result(said, details={"kinds": found, "namespaces": spaces})


def install(session: Session) -> Result:
    """Put in what is missing, of what infra/kubernetes has and of Kubeflow Pipelines; what is there stays as it is."""
    overlay = session.environ.get(OVERLAY, "local")
    folder = OVERLAYS / overlay
    if not (folder / "kustomization.yaml").is_file():
        raise LeftOut(f"there is no overlay {overlay}: {OVERLAY} is one of {', '.join(overlays())}")
    if session.kubectl.get("namespace", session.namespace) and not made_before(session):
        return ready(session, "the namespace posttrain was there: nothing is installed or changed in it")
    made, count = made_of(session), 0
    if session.environ.get(INSTALLS) == "kubeflow":
        for name in FOLDERS:
            count += create(made, built(session, f"{PIPELINES}/{name}?ref={kfp_version()}"), session)
    count += create(made, built(session, str(folder)), session)
    for engine in (KUBEFLOW, AIRFLOW):
        if session.kubectl.get("namespace", engine) and (folder / engine).is_dir():
            count += create(made, built(session, str(folder / engine)), session)
    if overlay == "local":
        count += create(made, logins(session), session)
    return ready(session, f"{count} objects were made from overlay {overlay}")


def store(session: Session) -> Result:
    """Reach the store from here; the bucket of a cluster's own object store is created if it is missing."""
    uri = session.environ.get("POSTTRAIN_STORE", "")
    created = ""
    if "AWS_ENDPOINT_URL" in session.environ and uri.startswith("s3://"):
        import boto3
        from botocore.exceptions import ClientError

        client, bucket = boto3.client("s3"), uri.removeprefix("s3://").partition("/")[0]
        try:
            client.head_bucket(Bucket=bucket)
        except ClientError:
            client.create_bucket(Bucket=bucket)
            created = f"; bucket {bucket} was created"
    runs = sum(1 for _ in session.store.names("ledger/"))
    return Result(f"{uri} is reached; it has {runs} runs{created}")


def made_before(session: Session) -> bool:
    """Return whether it was this command that made the namespace."""
    return any(
        entry["kind"] == "Namespace" and entry["name"] == session.namespace for entry in made_of(session).entries()
    )


def ready(session: Session, said: str) -> Result:
    """Wait for the Deployments of the namespace, and check that drivers may do what they have to."""
    wrong = []
    for item in session.kubectl.items("deployments", "-n", session.namespace):
        name = item["metadata"]["name"]
        try:
            words = ("rollout", "status", f"deployment/{name}", f"--timeout={READY_SECONDS}s")
            session.kubectl.said("-n", session.namespace, *words, timeout=READY_SECONDS + 30)
        except KubectlFailed as error:
            wrong.append(f"Deployment {name} is not ready: {error}")
    wrong += [
        text for account in (f"{session.namespace}:engine", "kubeflow:posttrain") for text in lacks(session, account)
    ]
    return Result(said, wrong)


def lacks(session: Session, account: str) -> Iterator[str]:
    """Yield what an account of a namespace that exists may not do, and has to."""
    space = account.partition(":")[0]
    if session.kubectl.get("namespace", space) is None:
        return
    for verb, what in DRIVERS_DO:
        words = ("auth", "can-i", verb, what, "-n", session.namespace, f"--as=system:serviceaccount:{account}")
        try:
            session.kubectl.said(*words)
        except KubectlFailed:
            yield f"{account} may not {verb} {what} in {session.namespace}"


def clean(session: Session) -> Result:
    """Remove what this command made, and nothing else."""
    gone, kept = made_of(session).undo_all()
    return Result(f"{len(gone)} objects were removed", kept, {"removed": gone})


def create(made: Made, objects: list[dict[str, Any]], session: Session) -> int:
    """Create what is missing, in the order given; return how many were."""
    count = 0
    for item in objects:
        if made.create(item):
            count += 1
            if item["kind"] == "CustomResourceDefinition":
                name = f"crd/{item['metadata']['name']}"
                session.kubectl.said("wait", "--for", "condition=established", "--timeout=120s", name)
    return count


def built(session: Session, folder: str) -> list[dict[str, Any]]:
    """Return the objects of a folder of kustomize, with the image that the cluster can pull."""
    text = session.kubectl.said("kustomize", folder)
    image = session.environ.get(IMAGE)
    objects = [item for item in yaml.safe_load_all(text) if item]
    return [_with_image(item, image) for item in objects] if image else objects


def logins(session: Session) -> list[dict[str, Any]]:
    """Return the Secrets of overlays/local, with passwords that nobody has chosen: they are never written to a file.

    One that is there already keeps its values, and what goes with it gets the same.
    """
    kept = {name: _data(session, name) for name in ("postgres", "mlflow-stage", STORE_SECRET)}
    database = kept["postgres"].get("POSTGRES_PASSWORD") or secrets.token_hex(16)
    login = {"MLFLOW_TRACKING_USERNAME": "stage", "MLFLOW_TRACKING_PASSWORD": secrets.token_hex(16)}
    keys = {"AWS_ACCESS_KEY_ID": secrets.token_hex(8), "AWS_SECRET_ACCESS_KEY": secrets.token_hex(16)}
    own = {
        "mlflow-database": {"uri": f"postgresql+psycopg2://mlflow:{database}@postgres/mlflow"},
        "postgres": {"POSTGRES_USER": "mlflow", "POSTGRES_PASSWORD": database},
        "mlflow-server": {
            "admin-username": "admin",
            "admin-password": secrets.token_hex(16),
            "forms-key": secrets.token_hex(32),
        },
    }
    spaces = [name for name in (KUBEFLOW, AIRFLOW) if session.kubectl.get("namespace", name)]
    shared = {"mlflow-stage": kept["mlflow-stage"] or login, STORE_SECRET: kept[STORE_SECRET] or keys}
    places = [(session.namespace, {**own, **shared}), *((name, shared) for name in spaces)]
    return [_secret(place, name, data) for place, named in places for name, data in named.items()]


def _data(session: Session, name: str) -> dict[str, str]:
    found = session.kubectl.get("secret", name, session.namespace) or {"data": {}}
    return {key: base64.b64decode(value).decode() for key, value in found["data"].items()}


def overlays() -> list[str]:
    """Return the overlays that there are."""
    return sorted(path.name for path in OVERLAYS.iterdir() if (path / "kustomization.yaml").is_file())


def kfp_version() -> str:
    """Return the version of Kubeflow Pipelines that our client is of."""
    lock = (ROOT / "infra" / "requirements" / "kubeflow.lock").read_text()
    return next(line.split("==")[1].split()[0] for line in lock.splitlines() if line.startswith("kfp=="))


def _secret(namespace: str, name: str, data: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "stringData": data}


def _with_image(item: Any, image: str) -> Any:
    """Return an object with the image in the place of the one that is built here."""
    if isinstance(item, list):
        return [_with_image(one, image) for one in item]
    if not isinstance(item, dict):
        return item
    own = os.path.basename(str(item.get("image", ""))).partition(":")[0].partition("@")[0] == BUILT  # noqa: PTH119
    return {name: image if own and name == "image" else _with_image(value, image) for name, value in item.items()}

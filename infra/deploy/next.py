"""What to do after a deployment: the variables of our commands, in a file to read in, and how pages are reached."""

from __future__ import annotations

import shlex

from infra.deploy.settings import INFRA
from infra.deploy.site import Site
from pipelines.language.whole_file import write_whole

CONFIG_KEYS = ("POSTTRAIN_STORE", "MLFLOW_TRACKING_URI", "AWS_REGION")
OBJECT_STORE_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
LOGIN = "mlflow-stage:MLFLOW_TRACKING_USERNAME+MLFLOW_TRACKING_PASSWORD"


def variables(site: Site) -> dict[str, str]:
    """Return the variables with which `posttrain` starts runs on this cluster; none is secret."""
    config = _config_map(site)
    found = {f"POSTTRAIN_IMAGE_{kind.upper()}": name for kind, name in site.images.items() if kind != "airflow"}
    found |= {"POSTTRAIN_RUNS_ON": "pod", "POSTTRAIN_KUBEFLOW_SERVICE_ACCOUNT": "posttrain"}
    found["POSTTRAIN_STORE"] = config["POSTTRAIN_STORE"]
    endpoint = config.get("AWS_ENDPOINT_URL", "")
    if not endpoint:
        return found
    found["POSTTRAIN_KUBEFLOW_CONFIG_MAPS"] = f"posttrain:{'+'.join((*CONFIG_KEYS, 'AWS_ENDPOINT_URL'))}"
    if ".svc" in endpoint:  # an object store inside the cluster has keys of its own
        found["POSTTRAIN_KUBEFLOW_SECRETS"] = f"{LOGIN},object-store:{'+'.join(OBJECT_STORE_KEYS)}"
        found["POSTTRAIN_POD_SECRETS"] = "mlflow-stage,object-store"
    else:
        found["AWS_ENDPOINT_URL"] = endpoint
    return found


def how_to_use(site: Site) -> str:
    """Write the variables to a file, and return the lines that a person needs next."""
    path = site.settings.folder / "posttrain.env"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(variables(site).items())]
    write_whole(path, "\n".join(lines) + "\n")
    forward = f"kubectl --context {shlex.quote(site.settings.context)} port-forward -n"
    told = [f"source {path}"]
    if "kubeflow" in site.settings.engines:
        told += [f"{forward} kubeflow svc/ml-pipeline-ui 3000:80 &"]
        told += ["POSTTRAIN_KUBEFLOW_URL=http://localhost:3000 posttrain run quickstart --engine kubeflow"]
    if "airflow" in site.settings.engines:
        made = "airflow users create -r Admin -u ann -e ann@example.com -f Ann -l Lee"
        told += [f"{forward.removesuffix(' port-forward -n')} -n airflow exec -it deploy/airflow-scheduler -- {made}"]
        told += [] if site.settings.host else [f"{forward} airflow svc/airflow-api-server 8080 &"]
    told += [
        f"{forward} posttrain svc/mlflow 5000 &",
        f"make test-cluster CONTEXT={site.settings.context} OVERLAY={site.settings.cloud}",
    ]
    return "next:\n" + "\n".join(f"    {line}" for line in told)


def _config_map(site: Site) -> dict[str, str]:
    """Return the ConfigMap `posttrain` of the overlay, filled in."""
    from infra.deploy.words import filled

    path = INFRA / "kubernetes" / "overlays" / site.settings.cloud / "settings" / "posttrain.env"
    lines = [line for line in path.read_text().splitlines() if "=" in line and not line.startswith("#")]
    found: dict[str, str] = filled(dict(line.split("=", 1) for line in lines), site.words)
    return found

"""Fixtures: a world of stand-ins, and `make deploy` on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from infra.deploy import __main__ as command
from infra.deploy import site
from infra.deploy.addons import read_addons
from infra.deploy.tools import Tools
from tests.infra.deploy.world import ARCHIVE_SUM, World

AWS = {
    "cluster": "posttrain",
    "region": "eu-central-1",
    "network": "10.99.0.0/16",
    "store": "s3://our-bucket/store",
    "roles": {
        role: f"arn:aws:iam::123456789012:role/posttrain-{role}"
        for role in ("stage", "engine", "airflow", "airflow-api", "lineage", "gc", "mlflow", "autoscaler")
    },
    "registries": {
        f"posttrain-{kind}": f"123456789012.dkr.ecr.eu-central-1.amazonaws.com/posttrain-{kind}"
        for kind in ("cpu", "gpu", "airflow")
    },
    "databases": {
        name: {"host": f"{name}.rds.example.com", "secret": f"arn:secret:{name}"} for name in ("mlflow", "airflow")
    },
}
GCP = {
    "cluster": "pt",
    "location": "europe-west4-b",
    "project": "team-1",
    "region": "europe-west4",
    "network": "10.99.0.0/16",
    "store": "s3://our-bucket/store",
    "roles": {
        role: f"pt-{role}@team-1.iam.gserviceaccount.com"
        for role in ("stage", "engine", "airflow", "airflow-api", "lineage", "gc", "mlflow")
    },
    "registries": {
        f"posttrain-{kind}": f"europe-west4-docker.pkg.dev/team-1/pt/posttrain-{kind}"
        for kind in ("cpu", "gpu", "airflow")
    },
    "databases": {name: {"host": "10.99.0.3", "instance": f"pt-{name}"} for name in ("mlflow", "airflow")},
}
AWS_STATE = [
    "data.aws_caller_identity.current",
    "aws_budgets_budget.month",
    'aws_db_instance.this["mlflow"]',
    "aws_eks_cluster.this",
    'aws_eks_node_group.pool["l4x1"]',
    "aws_kms_key.store",
    "aws_nat_gateway.this",
    "aws_s3_bucket.store",
    'aws_subnet.private["a"]',
    'aws_subnet.public["a"]',
    "aws_vpc.this",
]
PINNED = "registry.example.com/posttrain-{}@sha256:" + "3" * 64
Run = Callable[..., int]


@pytest.fixture
def world() -> World:
    """An account with nothing in it."""
    return World(outputs=AWS, addresses=[one for one in AWS_STATE if not one.startswith("data.")])


@pytest.fixture
def run(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return `make deploy`, `make destroy`: on the world, with charts whose sums are those of its archives."""
    addons = [one.model_copy(update={"sha256": ARCHIVE_SUM}) if one.sha256 else one for one in read_addons()]
    monkeypatch.setattr(site, "read_addons", lambda: addons)
    monkeypatch.setattr(Tools, "find", lambda self, name: f"/usr/bin/{name}")

    def go(verb: str, **variables: str) -> int:
        monkeypatch.setattr(command, "Tools", partial(Tools, call=world.call))
        base = {"CLOUD": "aws", "CONTEXT": world.context, "YES": "1", "DEPLOY_FOLDER": str(tmp_path / "deploy")}
        return command.main([verb], {**base, **variables})

    return go

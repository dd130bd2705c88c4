"""What outlives `make destroy`: bucket, databases and images, what they hang on, and what all of it costs meanwhile."""

from __future__ import annotations

import re

KEPT = {
    "aws": (
        "aws_s3_bucket", "aws_kms_key", "aws_db_", "aws_secretsmanager_secret_rotation", "aws_ecr_",
        "aws_budgets_budget", "aws_vpc.this", "aws_subnet.private", "aws_security_group.database",
    ),
    "gcp": (
        "google_storage_bucket.store", "google_sql_", "google_artifact_registry_", "google_billing_budget",
        "google_monitoring_notification_channel", "google_compute_network.this",
        "google_compute_global_address.services", "google_service_networking_connection.this", "google_project_service",
    ),
}  # fmt: skip
"""Cloud -> beginnings of terraform's addresses. Nothing that is kept may hang on something that goes (tests/infra)."""
COSTS = {
    "aws_s3_bucket.": "the bucket: per GB and month, old versions too",
    "aws_db_instance.": "a PostgreSQL server: per hour, and its disk",
    "aws_ecr_repository.": "images: per GB and month",
    "aws_kms_key.": "a key: about 1 USD a month",
    "google_storage_bucket.": "the bucket: per GB and month, old versions too",
    "google_sql_database_instance.": "a PostgreSQL server: per hour, and its disk",
    "google_artifact_registry_repository.": "images: per GB and month",
}


def kept_addresses(cloud: str, addresses: list[str]) -> set[str]:
    """Return which of terraform's addresses stay unless data is to go, too."""
    return {one for one in addresses if any(_begins(one, kept) for kept in KEPT[cloud])}


def what_it_costs(addresses: list[str]) -> list[str]:
    """Return a line for each thing that stays and costs money."""
    return [f"{one}: {text}" for one in addresses for start, text in COSTS.items() if one.startswith(start)]


def _begins(address: str, kept: str) -> bool:
    """A whole resource is meant by its full address, many of them by how their type begins."""
    return bool(re.match(rf"{re.escape(kept)}(\[|$)", address)) if "." in kept else address.startswith(kept)

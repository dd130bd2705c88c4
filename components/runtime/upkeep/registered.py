"""Artifacts named by a tracking server's model registry: people also register versions in MLflow's UI."""

from __future__ import annotations

import re

from components.contract.errors import InputError
from components.runtime.lineage.delivery.target import (
    access_refused,
    configure_client,
    database_errors,
    database_path,
    unreachable,
)

DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
TAG = "posttrain.digest"
PAGE = 200


def registered_digests(uri: str) -> set[str]:
    """Return our digests of all registered versions at a tracking URI; empty if there is no database yet.

    Raises InputError if the server is unreachable, since its registry is then unknown.
    """
    database = database_path(uri)
    if database is not None and not database.exists():
        return set()
    if reason := unreachable(uri):
        raise InputError(f"what MLflow's registry names cannot be told ({reason}); --without-mlflow goes without it")
    configure_client()
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    client = MlflowClient(uri, registry_uri=uri)
    found: set[str] = set()
    token = None
    try:
        with database_errors(uri):
            while True:
                page = client.search_model_versions(max_results=PAGE, page_token=token)
                for version in page:
                    tags = dict(version.tags)
                    if TAG not in tags and version.model_id:
                        tags = dict(client.get_logged_model(version.model_id).tags)
                    found.update(
                        DIGEST.findall(f"{tags.get(TAG, '')} {version.source} {tags.get('posttrain.uri', '')}")
                    )
                token = page.token
                if not token:
                    return found
    except MlflowException as error:
        reason = access_refused(uri, error.get_http_status_code()) or error
        raise InputError(
            f"what MLflow's registry names cannot be told ({reason}); --without-mlflow goes without it"
        ) from error

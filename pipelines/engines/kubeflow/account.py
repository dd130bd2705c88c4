"""Kubeflow's address and the user's login, from the environment. Imports no kfp."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.errors import InputError

URL = "POSTTRAIN_KUBEFLOW_URL"
TOKEN = "POSTTRAIN_KUBEFLOW_TOKEN"
TOKEN_FILE = "POSTTRAIN_KUBEFLOW_TOKEN_FILE"
NAMESPACE = "POSTTRAIN_KUBEFLOW_NAMESPACE"
SERVICE_ACCOUNT = "POSTTRAIN_KUBEFLOW_SERVICE_ACCOUNT"
MLFLOW_PLUGIN = "POSTTRAIN_KUBEFLOW_MLFLOW_PLUGIN"
SWITCH = {"": None, "1": True, "0": False}


@dataclass(frozen=True)
class Account:
    """Kubeflow's address and the user's login."""

    url: str
    token: str | None = None
    token_file: Path | None = None
    """File that holds the token; it is read for each request, since tokens expire and are renewed there."""
    namespace: str | None = None
    """Namespace of a user, if Kubeflow serves several."""
    service_account: str | None = None
    """Service account of the runs' pods; Kubeflow's default if None."""
    mlflow_plugin: bool | None = None
    """Whether Kubeflow's own MLflow plugin keeps runs, too; None leaves it to Kubeflow."""

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> Account:
        """Return the account in the variables POSTTRAIN_KUBEFLOW_*; raise InputError without an address."""
        url = environ.get(URL)
        if not url:
            raise InputError(f"no Kubeflow is known: set {URL}, and {TOKEN} or {TOKEN_FILE} where it asks for one")
        given = environ.get(MLFLOW_PLUGIN, "")
        if given not in SWITCH:
            raise InputError(f"{MLFLOW_PLUGIN}={given!r}: expected 1 or 0")
        token, path = environ.get(TOKEN), environ.get(TOKEN_FILE)
        return cls(
            url.rstrip("/"),
            token,
            _readable(Path(path)) if path and token is None else None,
            environ.get(NAMESPACE) or None,
            environ.get(SERVICE_ACCOUNT) or None,
            SWITCH[given],
        )

    def refresh_api_key_hook(self, configuration: Any) -> None:
        """Put the file's present token into a request; kfp's client calls this before each."""
        assert self.token_file is not None
        configuration.api_key["authorization"] = self.token_file.read_text().strip()

    def plugins_input(self, recipe: str) -> dict[str, Any]:
        """Return what a new run tells Kubeflow's plugins: servers before 2.17 refuse a run that tells them anything."""
        if self.mlflow_plugin is None:
            return {}
        told = {"experiment_name": recipe} if self.mlflow_plugin else {"disabled": True}
        return {"plugins_input": {"mlflow": told}}


def _readable(path: Path) -> Path:
    try:
        path.read_text()
    except OSError as error:
        raise InputError(f"{TOKEN_FILE}: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{TOKEN_FILE}: {path}: not a text") from None
    return path

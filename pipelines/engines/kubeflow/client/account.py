"""Kubeflow's address and the login there: a user's, from the environment, or a task's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from pipelines.engines.kubeflow.address import web_address

URL = "POSTTRAIN_KUBEFLOW_URL"
TOKEN = "POSTTRAIN_KUBEFLOW_TOKEN"
TOKEN_FILE = "POSTTRAIN_KUBEFLOW_TOKEN_FILE"
NAMESPACE = "POSTTRAIN_KUBEFLOW_NAMESPACE"
SERVICE_ACCOUNT = "POSTTRAIN_KUBEFLOW_SERVICE_ACCOUNT"
MLFLOW_PLUGIN = "POSTTRAIN_KUBEFLOW_MLFLOW_PLUGIN"
SWITCH = {"": None, "1": True, "0": False}
POD_TOKEN = "KF_PIPELINES_SA_TOKEN_PATH"
POD_TOKEN_FILE = "/var/run/secrets/kubeflow/pipelines/token"
"""Where Kubeflow puts the token with which a pod may ask its Pipelines, and the variable that names another place."""


@dataclass(frozen=True)
class Account:
    """Kubeflow's address and a login."""

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
            web_address(URL, url),
            _printable(TOKEN, token) if token else None,
            _readable(Path(path)) if path and not token else None,
            environ.get(NAMESPACE) or None,
            environ.get(SERVICE_ACCOUNT) or None,
            SWITCH[given],
        )

    @classmethod
    def inside(cls, url: str, environ: Mapping[str, str] = os.environ) -> Account:
        """Return the account of a task on the cluster: with its pod's token for Kubeflow Pipelines, if it has one."""
        path = Path(environ.get(POD_TOKEN) or POD_TOKEN_FILE)
        return cls(url, token_file=path if path.is_file() else None)

    def present_token(self) -> str | None:
        """Return the token that is good now, None if there is none; raise OSError if its file cannot be read."""
        return self.token_file.read_text().strip() if self.token_file else self.token

    @property
    def login(self) -> str:
        """Return what to call the login in a message."""
        if self.token_file:
            return f"the token in {self.token_file}"
        return f"the token in {TOKEN}" if self.token else f"no login ({TOKEN_FILE} or {TOKEN})"

    def plugins_input(self, recipe: str) -> dict[str, Any]:
        """Return what a new run tells Kubeflow's plugins: servers before 2.17 refuse a run that tells them anything."""
        if self.mlflow_plugin is None:
            return {}
        told = {"experiment_name": recipe} if self.mlflow_plugin else {"disabled": True}
        return {"plugins_input": {"mlflow": told}}


def _readable(path: Path) -> Path:
    try:
        _printable(f"{TOKEN_FILE}: {path}", path.read_text().strip())
    except OSError as error:
        raise InputError(f"{TOKEN_FILE}: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{TOKEN_FILE}: {path}: not a text") from None
    return path


def _printable(name: str, token: str) -> str:
    """Return a token, which may hold nothing that ends a header; it is not shown."""
    if not (token.isascii() and token.isprintable()):
        raise InputError(f"{name}: not a token: it has characters that no token has")
    return token

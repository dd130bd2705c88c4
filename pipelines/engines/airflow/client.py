"""The part of Airflow's REST interface that the command line needs. Imports no Airflow."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.errors import InputError, PosttrainError
from pipelines.engines.airflow.deployment import Deployment, person
from pipelines.engines.shared.follower import OrchestratorAway

URL = "POSTTRAIN_AIRFLOW_URL"
USER = "POSTTRAIN_AIRFLOW_USER"
PASSWORD = "POSTTRAIN_AIRFLOW_PASSWORD"
PASSWORD_FILE = "POSTTRAIN_AIRFLOW_PASSWORD_FILE"
TIMEOUT_SECONDS = 30.0


class AirflowUnavailable(OrchestratorAway):
    """Airflow does not answer properly."""


class NotFound(PosttrainError):
    """Airflow has no such thing."""


@dataclass(frozen=True)
class Account:
    """Airflow's address and the user's login."""

    url: str
    user: str
    password: str

    @classmethod
    def read(cls, deployment: Deployment, environ: Mapping[str, str] = os.environ) -> Account:
        """Return the account in the variables POSTTRAIN_AIRFLOW_*, else of the Airflow that runs beside the store."""
        own = deployment.read_address()
        url = environ.get(URL) or (own or {}).get("url")
        if not url:
            raise InputError(f"no Airflow is known: start one with `make airflow`, or set {URL}, {USER} and {PASSWORD}")
        if environ.get(URL) and not environ.get(USER):
            raise InputError(f"{URL} is set; set {USER}, and {PASSWORD} or {PASSWORD_FILE}, too")
        user = environ.get(USER) or person()
        return cls(url.rstrip("/"), user, _password(deployment, user, environ))


def _password(deployment: Deployment, user: str, environ: Mapping[str, str]) -> str:
    if PASSWORD in environ:
        return environ[PASSWORD]
    path = Path(environ[PASSWORD_FILE]) if PASSWORD_FILE in environ else deployment.passwords
    try:
        text = path.read_text().strip()
    except OSError as error:
        raise InputError(f"Airflow's password of {user}: {path}: {error.strerror}; set {PASSWORD}") from None
    if not text.startswith("{"):
        return text
    passwords = json.loads(text)
    if user not in passwords:
        raise InputError(f"Airflow's password of {user}: {path} has only {', '.join(passwords)}; set {PASSWORD}")
    password: str = passwords[user]
    return password


class Client:
    """One session with Airflow; an expired token is renewed."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._token: str | None = None

    def get(self, path: str, **query: Any) -> Any:
        """Return the resource at a path below /api/v2; raise NotFound if there is none."""
        text = urllib.parse.urlencode(query, doseq=True)
        return self._ask("GET", f"/api/v2/{path}" + (f"?{text}" if text else ""))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Create a resource."""
        return self._ask("POST", f"/api/v2/{path}", body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """Change a resource."""
        return self._ask("PATCH", f"/api/v2/{path}", body)

    def all(self, path: str, name: str, **query: Any) -> list[Any]:
        """Return the items of a listing, page by page."""
        found: list[Any] = []
        while True:
            page = self.get(path, limit=100, offset=len(found), **query)
            found += page[name]
            if not page[name] or len(found) >= page["total_entries"]:
                return found

    def health(self) -> dict[str, str]:
        """Return component -> status; needs no token."""
        answer = self._send("GET", "/api/v2/monitor/health", None, {})
        return {name: (state or {}).get("status") or "missing" for name, state in answer.items()}

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        for renewed in (False, True):
            if self._token is None:
                login = {"username": self.account.user, "password": self.account.password}
                self._token = self._send("POST", "/auth/token", login, {})["access_token"]
            try:
                return self._send(method, path, body, {"Authorization": f"Bearer {self._token}"})
            except _Refused:
                self._token = None
                if renewed:
                    raise
        raise AssertionError("unreachable: the second try returns or raises")

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {**headers, "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.account.url}{path}", data, dict(headers), method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise self._complaint(error, path) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise AirflowUnavailable(f"Airflow at {self.account.url} does not answer: {reason}") from None
        try:
            return json.loads(text) if text else None
        except ValueError:
            raise AirflowUnavailable(f"{self.account.url} answers, but is not Airflow ({path})") from None

    def _complaint(self, error: urllib.error.HTTPError, path: str) -> PosttrainError:
        detail = _detail(error.read())
        where = f"Airflow at {self.account.url}"
        if error.code == 401:
            return _Refused(f"{where} rejects user {self.account.user!r} with this password")
        if error.code == 403:
            return InputError(f"{where}: user {self.account.user!r} may not do this ({detail})")
        if error.code == 404:
            return NotFound(f"{where}: {detail}")
        if error.code in (400, 409, 422):
            return InputError(f"{where}: {detail}")
        return AirflowUnavailable(f"{where}: {error.code} for {path}: {detail}")


class _Refused(InputError):
    """The token or the password was refused."""


def _detail(text: bytes) -> str:
    """Return the message of an error's body, in one line."""
    try:
        detail = json.loads(text)["detail"]
    except (ValueError, KeyError, TypeError):
        return " ".join(text.decode(errors="replace").split())[:300] or "no message"
    if isinstance(detail, list):
        return "; ".join(f"{'.'.join(map(str, item.get('loc', ())))}: {item.get('msg')}" for item in detail)
    return " ".join(str(detail).split())

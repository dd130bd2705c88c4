"""Requests to Kubeflow Pipelines' v2beta1 API, with the standard library: the tasks' image has no client.

kfp's own client waits without a limit, and takes the page of a login for an answer.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, NoReturn
from urllib.parse import quote, urlencode

from components.contract.errors import PosttrainError
from components.contract.terminal import short_line
from pipelines.engines.kubeflow.client.account import NAMESPACE, TOKEN, TOKEN_FILE, URL, Account
from pipelines.engines.shared.follower import OrchestratorAway

TIMEOUT_SECONDS = 30.0
"""Of one request."""
ROOT = "/apis/v2beta1"
DETAIL = 300
"""Characters of an answer that an error shows."""

Answer = dict[str, Any]


class KubeflowUnavailable(OrchestratorAway):
    """Kubeflow does not answer properly; it may be back in a moment."""


class Refused(PosttrainError):
    """Kubeflow refuses the login, or what was asked for; asking again changes nothing."""


class NotFound(PosttrainError):
    """Kubeflow has no such run."""


class NotNow(PosttrainError):
    """Kubeflow refuses this in the run's current state."""


class Rest:
    """Asks with the token that is good now: a file with one is read for each request."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._opener = urllib.request.build_opener(_NoRedirects)

    def ask(self, method: str, path: str, body: Any = None, **query: str | int) -> Answer:
        """Return the answer to one request; the words of `path` are in quotes where they may hold anything.

        Raises NotFound, NotNow, Refused or KubeflowUnavailable.
        """
        address = f"{self.account.url}{ROOT}{path}" + (f"?{urlencode(query)}" if query else "")
        request = urllib.request.Request(address, method=method)
        request.add_header("Accept", "application/json")
        if token := self._token():
            request.add_header("Authorization", f"Bearer {token}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
                return self._answer(answer.read())
        except urllib.error.HTTPError as error:
            self._refused(error)
        except (OSError, HTTPException) as error:
            self._broken(getattr(error, "reason", error))

    def ask_for(self, field: str, method: str, path: str, body: Any = None) -> str:
        """Return one field of the answer; raise Refused for an answer without it."""
        found = self.ask(method, path, body).get(field)
        if not found:
            raise Refused(f"{self._name} answers {method} {path} without {field}: is {URL} its address?")
        return str(found)

    def _token(self) -> str | None:
        try:
            return self.account.present_token()
        except OSError as error:  # it may be in the middle of being renewed
            raise KubeflowUnavailable(f"{TOKEN_FILE}: {self.account.token_file}: {error.strerror}") from None

    @property
    def _name(self) -> str:
        return f"Kubeflow at {self.account.url}"

    def _answer(self, text: bytes) -> Answer:
        """Return an answer of the API; a dashboard or a login answers with a page, and says that all is well."""
        try:
            found = json.loads(text or b"{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise Refused(
                f"{self._name} answers with a page, not as Kubeflow Pipelines does: is {URL} its address (behind "
                f"Kubeflow's dashboard, https://HOST/pipeline), and {self.account.login} good?"
            )
        return found

    def _refused(self, error: urllib.error.HTTPError) -> NoReturn:
        detail, known = _detail(error)
        said = f"{self._name}: HTTP {error.code}: {detail}"
        if 300 <= error.code < 400:
            place = short_line(error.headers.get("Location") or "?", DETAIL)
            raise Refused(f"{self._name} asks for a login, at {place}: {self.account.login} is not good there")
        if error.code == 401:
            raise Refused(f"{self._name} refuses the login: HTTP 401: {detail}: {self._renew()}")
        if error.code == 403 or (error.code == 400 and "amespace" in detail):
            place = f"namespace {self.account.namespace!r}" if self.account.namespace else "no namespace"
            raise Refused(f"{said} (asked for {place}: {NAMESPACE} names it, and {self.account.login} has to reach it)")
        if error.code == 404 and not known:
            raise Refused(f"{said}: no Kubeflow Pipelines is there; {URL} is its address without {ROOT}")
        kinds: Mapping[int, type[PosttrainError]] = {404: NotFound, 400: NotNow, 409: NotNow, 412: NotNow}
        raise kinds.get(error.code, KubeflowUnavailable)(said)

    def _broken(self, reason: object) -> NoReturn:
        """Say why there is no answer; certificates do not become good by waiting."""
        text = short_line(str(getattr(reason, "strerror", None) or reason) or type(reason).__name__, DETAIL)
        if isinstance(reason, ssl.SSLError):
            raise Refused(f"{self._name}: {text}: SSL_CERT_FILE names the certificates to trust, http:// asks for none")
        raise KubeflowUnavailable(f"{self._name} does not answer: {text}")

    def _renew(self) -> str:
        if self.account.token_file:
            return f"the token in {self.account.token_file} has expired or is of another Kubeflow; renew it there"
        if self.account.token:
            return f"the token in {TOKEN} has expired; {TOKEN_FILE} names a file that is read for each request"
        return f"set {TOKEN_FILE} or {TOKEN}"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the API makes none, and a login's page is no answer."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Follow none."""


def word(text: str) -> str:
    """Return a text as one part of a path."""
    return quote(text, safe="")


def _detail(error: urllib.error.HTTPError) -> tuple[str, bool]:
    """Return what an answer says is wrong, in a line, and whether it is one of Kubeflow Pipelines."""
    try:
        text = error.read().decode(errors="replace")
    except (OSError, HTTPException):
        text = ""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, dict):
        said = found.get("error_message") or found.get("message") or found.get("error") or text
        return short_line(str(said), DETAIL), True
    plain = "" if "<" in text else text  # the page of a proxy
    return short_line(plain or str(error.reason), DETAIL), False

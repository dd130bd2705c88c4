"""The part of Kubernetes' API that a driver needs, with the standard library: images have no client."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from components.contract.errors import InputError, PosttrainError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_SECONDS = 30.0
LINE_BYTES = 64 << 10
"""What is read of one line of a log: what a pod writes without an end must not fill the memory of who follows it."""
ADDRESS = "POSTTRAIN_KUBERNETES_URL"
"""Replaces the address of the cluster, such as that of `kubectl proxy`, for a driver outside of a pod."""
LOGIN = "POSTTRAIN_KUBERNETES_ACCOUNT"
"""Folder with the files `token` and `ca.crt` for that address, where it needs them."""

Resource = dict[str, Any]


class ClusterUnavailable(PosttrainError):
    """Kubernetes does not answer properly."""


class LoginRefused(ClusterUnavailable):
    """Kubernetes does not accept this login (any more)."""


class Conflict(PosttrainError):
    """The name already exists, or somebody else has changed the object."""


class Gone(PosttrainError):
    """The version from which to watch is too old: the object has to be read again."""


class Missing(InputError):
    """The kind of object is not known there."""


@dataclass(frozen=True)
class Place:
    """Where the objects of one kind are in the API."""

    api: str
    """Such as apis/batch/v1, or api/v1."""
    plural: str

    def path(self, namespace: str, name: str | None = None, query: Mapping[str, str] | None = None) -> str:
        """Return the path of one object, or of all in a namespace."""
        path = f"{self.api}/namespaces/{quote(namespace)}/{self.plural}{f'/{quote(name)}' if name else ''}"
        return f"{path}?{urlencode(query)}" if query else path


PODS, EVENTS = Place("api/v1", "pods"), Place("api/v1", "events")
LEASES = Place("apis/coordination.k8s.io/v1", "leases")


@dataclass(frozen=True)
class Cluster:
    """Kubernetes' address and this pod's login."""

    url: str
    account: Path | None = None
    """Folder with the files `token` and `ca.crt`; the token changes while a pod runs."""

    @classmethod
    def inside(cls, environ: Mapping[str, str] = os.environ) -> Cluster:
        """Return the cluster that this process is a pod of; raise InputError outside a pod."""
        if environ.get(ADDRESS):
            login = environ.get(LOGIN)
            return cls(environ[ADDRESS].rstrip("/"), Path(login) if login else None)
        host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host or not (ACCOUNT / "token").is_file():
            raise InputError(
                "this is not a pod with a service account, and only such a pod can start a stage on the cluster; "
                f"elsewhere set {ADDRESS} to the cluster's address, such as that of `kubectl proxy`"
            )
        return cls(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", ACCOUNT)

    def create(self, place: Place, manifest: Resource) -> Resource:
        """Create an object and return it as it was stored.

        Raises Conflict if its name exists, Missing if the cluster has no such kind, and InputError if it is refused.
        """
        made: Resource = self._ask("POST", place.path(manifest["metadata"]["namespace"]), manifest)
        return made

    def get(self, place: Place, namespace: str, name: str) -> Resource | None:
        """Return an object, or None."""
        found: Resource | None = self._ask("GET", place.path(namespace, name))
        return found

    def list(self, place: Place, namespace: str, **query: str) -> list[Resource]:
        """Return the objects that the query selects, by `labelSelector` and `fieldSelector`."""
        answer = self._ask("GET", place.path(namespace, None, query)) or {}
        items: list[Resource] = answer.get("items") or []
        return items

    def look(self, place: Place, namespace: str, name: str) -> tuple[Resource | None, str]:
        """Return an object, or None, and the version from which to watch it: its own may be too old for that."""
        answer = self._ask("GET", place.path(namespace, None, {"fieldSelector": f"metadata.name={name}"})) or {}
        found = next(iter(answer.get("items") or ()), None)
        return found, str(answer.get("metadata", {}).get("resourceVersion", ""))

    def replace(self, place: Place, changed: Resource) -> Resource:
        """Write an object that was read; raise Conflict if somebody else has changed or deleted it since."""
        metadata = changed["metadata"]
        made: Resource | None = self._ask("PUT", place.path(metadata["namespace"], metadata["name"]), changed)
        if made is None:
            raise Conflict(f"Kubernetes: {place.plural} {metadata['name']} is gone")
        return made

    def delete(
        self, place: Place, found: Resource, *, propagation: str = "Background", unchanged: bool = False
    ) -> None:
        """Delete an object with what belongs to it; it may be gone already.

        Raises Conflict if it is another one of that name, or `unchanged` and somebody has changed it since it was read.
        """
        metadata = found["metadata"]
        wanted = ("uid", "resourceVersion") if unchanged else ("uid",)
        conditions = {name: metadata[name] for name in wanted}
        options: Resource = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        options |= {"preconditions": conditions}
        self._ask("DELETE", place.path(metadata["namespace"], metadata["name"]), options)

    def watch(self, place: Place, namespace: str, name: str, version: str, seconds: int) -> tuple[str, Resource] | None:
        """Wait for the next change of an object; return (ADDED, MODIFIED, DELETED or BOOKMARK, object), None in vain.

        Raises Gone if the version is too old to watch from.
        """
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={name}",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
            "allowWatchBookmarks": "true",
        }
        path = place.path(namespace, None, query)
        try:
            with self._open("GET", path, None, timeout=seconds + TIMEOUT_SECONDS) as answer:
                line = answer.readline()
            event = json.loads(line) if line.strip() else None
        except urllib.error.HTTPError as error:
            raise self._error("GET", path, error) from None
        except (OSError, ValueError) as error:
            raise ClusterUnavailable(f"Kubernetes: watch of {name}: {error}") from None
        if event is None:
            return None
        if event["type"] == "ERROR":
            said = event["object"]
            raise (Gone if said.get("code") == 410 else ClusterUnavailable)(str(said.get("message")))
        return event["type"], event["object"]

    def log(
        self, namespace: str, pod: str, container: str, since: str | None = None, *, follow: bool = True
    ) -> Iterator[tuple[str, str]]:
        """Yield (time, line) of a container's log from `since` on: as they come, until it ends, or what is there now.

        Raises ClusterUnavailable when the connection breaks, and Missing if the pod is gone.
        """
        query = {"container": container, "timestamps": "true"} | ({"sinceTime": since} if since else {})
        query |= {"follow": "true"} if follow else {}
        path = f"{PODS.path(namespace, pod)}/log?{urlencode(query)}"
        try:
            with self._open("GET", path, None, timeout=None if follow else TIMEOUT_SECONDS) as answer:
                for raw in _lines(answer):
                    time, _, line = raw.decode(errors="backslashreplace").rstrip("\n").partition(" ")
                    yield time, line
        except urllib.error.HTTPError as error:
            raise (Missing if error.code == 404 else ClusterUnavailable)(f"log of pod {pod}: {error}") from None
        except (OSError, ValueError) as error:
            raise ClusterUnavailable(f"log of pod {pod}: {error}") from None

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        try:
            with self._open(method, path, body, timeout=TIMEOUT_SECONDS) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            if error.code == 404 and method != "POST":
                return None
            raise self._error(method, path, error) from None
        except (OSError, ValueError) as error:
            raise ClusterUnavailable(f"Kubernetes: {method} {path}: {error}") from None

    def _error(self, method: str, path: str, error: urllib.error.HTTPError) -> PosttrainError:
        text = " ".join(error.read().decode(errors="replace").split())
        with suppress(ValueError, KeyError, TypeError):
            text = str(json.loads(text)["message"])
        if error.code == 401:
            return LoginRefused(f"Kubernetes does not accept this login (HTTP 401): {text[:300]}{self._whose}")
        kinds = {400: InputError, 403: InputError, 404: Missing, 409: Conflict, 410: Gone, 422: InputError}
        kind = kinds.get(error.code, ClusterUnavailable)
        return kind(f"Kubernetes: {method} {path.partition('?')[0]}: HTTP {error.code}: {text[:300]}")

    @property
    def _whose(self) -> str:
        return f"; it is read again from {self.account / 'token'} each time" if self.account else ""

    def _open(self, method: str, path: str, body: Any, *, timeout: float | None) -> Any:
        request = urllib.request.Request(f"{self.url}/{path}", method=method)
        request.add_header("Accept", "application/json, */*")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        context = None
        if self.account is not None:
            request.add_header("Authorization", f"Bearer {(self.account / 'token').read_text().strip()}")
            context = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
        return urllib.request.urlopen(request, timeout=timeout, context=context)


def _lines(stream: Any) -> Iterator[bytes]:
    """Yield the lines of a log; what a line has beyond LINE_BYTES is read and dropped."""
    while raw := stream.readline(LINE_BYTES):
        yield raw
        while len(raw) == LINE_BYTES and not raw.endswith(b"\n"):
            raw = stream.readline(LINE_BYTES)

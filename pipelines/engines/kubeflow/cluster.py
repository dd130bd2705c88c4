"""The part of Kubernetes' API that a multi-node stage needs, with the standard library: images have no client."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from components.contract.errors import InputError, PosttrainError

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TIMEOUT_SECONDS = 30.0
JOBSETS = "apis/jobset.x-k8s.io/v1alpha2"


class ClusterUnavailable(PosttrainError):
    """Kubernetes does not answer properly."""


class Conflict(PosttrainError):
    """The name already exists."""


@dataclass(frozen=True)
class Cluster:
    """Kubernetes' address and this pod's login."""

    url: str
    account: Path | None = None
    """Folder with the files `token` and `ca.crt`; the token changes while a pod runs."""

    @classmethod
    def inside(cls, environ: Mapping[str, str] = os.environ) -> Cluster:
        """Return the cluster that this process is a pod of; raise InputError outside a pod."""
        host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host or not (ACCOUNT / "token").is_file():
            raise InputError(
                "this is not a pod with a service account, and only such a pod can start a stage on several nodes"
            )
        return cls(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", ACCOUNT)

    def create_jobset(self, manifest: Mapping[str, Any]) -> None:
        """Create a JobSet; raise Conflict if its name exists."""
        namespace = manifest["metadata"]["namespace"]
        self._ask("POST", f"{JOBSETS}/namespaces/{namespace}/jobsets", manifest)

    def jobset(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return a JobSet with its status, or None."""
        found: dict[str, Any] | None = self._ask("GET", f"{JOBSETS}/namespaces/{namespace}/jobsets/{name}")
        return found

    def delete_jobset(self, namespace: str, name: str) -> None:
        """Delete a JobSet and its pods."""
        self._ask("DELETE", f"{JOBSETS}/namespaces/{namespace}/jobsets/{name}?propagationPolicy=Background")

    def pods(self, namespace: str, label: str, value: str) -> list[dict[str, Any]]:
        """Return the pods with a label."""
        query = urlencode({"labelSelector": f"{label}={value}"})
        answer = self._ask("GET", f"api/v1/namespaces/{namespace}/pods?{query}") or {}
        pods: list[dict[str, Any]] = answer.get("items", [])
        return pods

    def log(self, namespace: str, pod: str, container: str, since: str | None = None) -> Iterator[tuple[str, str]]:
        """Yield (time, line) of a container's log as they come, from `since` on; ends with the container.

        Raises ClusterUnavailable when the connection breaks.
        """
        query = {"container": container, "follow": "true", "timestamps": "true"} | (
            {"sinceTime": since} if since else {}
        )
        path = f"api/v1/namespaces/{namespace}/pods/{quote(pod)}/log?{urlencode(query)}"
        try:
            with self._open("GET", path, None, timeout=None) as answer:
                for raw in answer:
                    time, _, line = raw.decode(errors="backslashreplace").rstrip("\n").partition(" ")
                    yield time, line
        except (OSError, urllib.error.HTTPError) as error:
            raise ClusterUnavailable(f"log of pod {pod}: {error}") from None

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        try:
            with self._open(method, path, body, timeout=TIMEOUT_SECONDS) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            detail = " ".join(error.read().decode(errors="replace").split())[:300]
            if error.code == 404 and method != "POST":
                return None
            kind = Conflict if error.code == 409 else InputError if error.code in (400, 403, 404, 422) else None
            raise (kind or ClusterUnavailable)(f"Kubernetes: {method} {path}: HTTP {error.code}: {detail}") from None
        except (OSError, ValueError) as error:
            raise ClusterUnavailable(f"Kubernetes: {method} {path}: {error}") from None

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

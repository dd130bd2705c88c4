"""kubectl with one context, always named: what it says, objects as JSON, and addresses inside the cluster made ours."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from components.contract.errors import InputError, PosttrainError
from components.contract.terminal import visible_line

TIMEOUT_SECONDS = 300
_LISTENS = re.compile(r"(?:Starting to serve on|Forwarding from) 127\.0\.0\.1:(\d+)")


class KubectlFailed(PosttrainError):
    """kubectl ended with an error."""


@dataclass(frozen=True)
class Kubectl:
    """kubectl for the cluster of one context."""

    context: str

    @classmethod
    def of(cls, context: str) -> Kubectl:
        """Return it; raise InputError if kubectl is missing, or does not know the context."""
        if shutil.which("kubectl") is None:
            raise InputError("kubectl is not installed")
        done = subprocess.run(["kubectl", "config", "get-contexts", "-o", "name"], capture_output=True, text=True)
        known = done.stdout.split()
        if not context or context not in known:
            told = f"{context!r} is none of kubectl's" if context else "none is named"
            names = ", ".join(known) or "none: make a cluster first (kind create cluster), or write a kubeconfig"
            raise InputError(f"context: {told}; say which cluster may be tested, CONTEXT=NAME (known: {names})")
        return cls(context)

    def said(self, *words: str, given: str | None = None, timeout: float = TIMEOUT_SECONDS) -> str:
        """Return what a command prints; raise KubectlFailed with its last line if it fails."""
        command = ["kubectl", "--context", self.context, *words]
        try:
            done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise KubectlFailed(f"kubectl {words[0]}: no end after {timeout:.0f} s") from None
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()][-1:] or [f"exit {done.returncode}"]
            raise KubectlFailed(f"kubectl {words[0]}: {visible_line(lines[0])}")
        return done.stdout

    def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """Return an object, or None if it, or its kind, is not there."""
        place = ["-n", namespace] if namespace else []
        try:
            text = self.said("get", kind, name, *place, "--ignore-not-found", "-o", "json")
        except KubectlFailed as error:
            if "doesn't have a resource type" in str(error):
                return None
            raise
        found: dict[str, Any] | None = json.loads(text) if text.strip() else None
        return found

    def items(self, kind: str, *words: str) -> list[dict[str, Any]]:
        """Return the objects of a kind."""
        found: list[dict[str, Any]] = json.loads(self.said("get", kind, *words, "-o", "json"))["items"]
        return found

    @contextmanager
    def proxy(self) -> Iterator[str]:
        """Yield the API server's address on this machine, with this context's login."""
        with self._listening("proxy", "--port=0") as port:
            yield f"http://127.0.0.1:{port}"

    @contextmanager
    def forward(self, namespace: str, service: str, port: int | str) -> Iterator[str]:
        """Yield the address of a service on this machine."""
        with self._listening("-n", namespace, "port-forward", f"service/{service}", f":{port}") as local:
            yield f"http://127.0.0.1:{local}"

    @contextmanager
    def _listening(self, *words: str) -> Iterator[int]:
        command = ["kubectl", "--context", self.context, *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = _LISTENS.search(line)
            if found is None:
                raise KubectlFailed(f"kubectl {' '.join(words)}: {visible_line(line) or 'it says nothing'}")
            yield int(found[1])
        finally:
            process.terminate()
            process.wait()

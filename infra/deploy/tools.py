"""Programs of others (terraform, kubectl, helm ...), called by lists of arguments; a failure becomes one line."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

from components.contract.errors import PosttrainError
from components.contract.terminal import visible_line

HOW_TO_INSTALL = {
    "terraform": "https://developer.hashicorp.com/terraform/install (1.9 or later)",
    "kubectl": "https://kubernetes.io/docs/tasks/tools (1.30 or later)",
    "helm": "https://helm.sh/docs/intro/install (3.19 or later)",
    "aws": "https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html (version 2)",
    "gcloud": "https://cloud.google.com/sdk/docs/install, and gcloud components install gke-gcloud-auth-plugin",
    "git": "apt-get install git",
    "podman": "apt-get install podman, or install docker",
}
VALUED = ("--context", "--kube-context", "--namespace", "-n", "-o", "-f", "--timeout", "--filter", "--values")
SHORT_SECONDS = 300
LONG_SECONDS = 5400
"""For what makes a cluster or takes one down."""


Call = Callable[..., "subprocess.CompletedProcess[str]"]


class StepFailed(PosttrainError):
    """A program of others did not do what it was told."""


class Tools:
    """Runs programs; nothing that is secret may be an argument, since everybody on a machine sees these."""

    def __init__(self, environ: Mapping[str, str] = os.environ, call: Call = subprocess.run) -> None:
        self.environ = dict(environ)
        self.call = call

    def missing(self, names: list[str]) -> list[str]:
        """Return a line for each program that is not there, with how to install it."""
        return [f"{name}: {HOW_TO_INSTALL[name]}" for name in names if self.find(name) is None]

    def find(self, name: str) -> str | None:
        """Return where a program is."""
        return shutil.which(name, path=self.environ.get("PATH"))

    def run(
        self,
        *command: str,
        given: str | None = None,
        fine: tuple[int, ...] = (0,),
        seconds: float = SHORT_SECONDS,
        shown: bool = False,
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on what it is `given`; `shown` lets a person see what it says while it works.

        Raises StepFailed with one line if its exit status is not among the fine ones.
        """
        told = {**self.environ, **(environ or {})}
        out = None if shown else subprocess.PIPE
        try:
            done = self.call(
                command,
                input=given,
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
                timeout=seconds,
                env=told,
            )
        except FileNotFoundError:
            how = HOW_TO_INSTALL.get(command[0], "install it")
            raise StepFailed(f"{command[0]} is not installed: {how}") from None
        except subprocess.TimeoutExpired:
            raise StepFailed(f"{' '.join(command[:4])} did not end within {seconds:.0f} s") from None
        if done.returncode not in fine:
            raise StepFailed(f"{_short(command)}: {_reason(done.stderr or done.stdout or '')}")
        return done

    def said(self, *command: str, **how: object) -> str:
        """Return what a program printed."""
        return self.run(*command, **how).stdout  # type: ignore[arg-type]


def _short(command: tuple[str, ...]) -> str:
    """Return a command as a person would name it: without options and their values."""
    valued = {word for option, word in pairwise(command) if option in VALUED}
    words = [word for word in command[1:] if not word.startswith(("-", "/")) and word not in valued]
    return " ".join([Path(command[0]).name, *words][:4])


def _reason(text: str) -> str:
    """Return the line of a program's complaint that says what is wrong."""
    lines = [" ".join(line.strip("│╷╵ ").split()) for line in text.splitlines()]
    lines = [line for line in lines if line]
    errors = [line for line in lines if line.lower().startswith("error")]
    return visible_line((errors[:1] or lines[-1:] or ["it did not say why"])[0])[:400].rstrip(".")

"""What `make deploy` and `make destroy` are told, and where they keep what they found."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from components.contract.errors import InputError

INFRA = Path(__file__).resolve().parents[1]
CLOUDS = ("aws", "gcp", "local")
ENGINES = ("kubeflow", "airflow")
KINDS = ("cpu", "gpu", "airflow")
MAX_NAME = 80
"""Characters of a workspace's name: terraform takes 90."""
BUILD = Path("build/deploy")
_CONTEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,252}")


@dataclass(frozen=True)
class Settings:
    """One deployment: a cloud, kubectl's name of the cluster, and what is wanted there."""

    cloud: str
    context: str
    engines: tuple[str, ...] = ENGINES
    skip: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    yes: bool = False
    plan_only: bool = False
    destroy_data: bool = False
    tfvars: str = ""
    host: str = ""
    """Name under which people reach Airflow; without it there is no ingress, and a port-forward serves."""
    images: Mapping[str, str] = field(default_factory=dict)
    """Kind of image -> name@sha256:..., where it was pushed by somebody else."""
    kinds: tuple[str, ...] = KINDS
    root: Path = BUILD

    @property
    def folder(self) -> Path:
        """Return the folder of this deployment: its journal, its plan, its values and its variables."""
        return self.root / self.name

    @property
    def name(self) -> str:
        """Return the context as a name of files and of terraform's workspace; no two contexts have the same."""
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", self.context).strip("-")
        mark = hashlib.sha256(self.context.encode()).hexdigest()[:8]
        return plain if plain == self.context and len(plain) <= MAX_NAME else f"{plain[:MAX_NAME]}-{mark}"

    @property
    def is_cloud(self) -> bool:
        """Return whether terraform makes the cluster."""
        return self.cloud != "local"

    def wants(self, step: str) -> bool:
        """Return whether a step is to be taken."""
        return step not in self.skip and (not self.only or step in self.only)

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Settings:
        """Return the settings in the variables of make; raise InputError for one that cannot be meant."""
        cloud = _one_of("CLOUD", environ.get("CLOUD", ""), CLOUDS)
        context = environ.get("CONTEXT", "")
        if not _CONTEXT.fullmatch(context):
            raise InputError(
                "CONTEXT is not set: kubectl's name of the cluster, which a new one gets (CONTEXT=posttrain)"
            )
        engines = tuple(
            _one_of("ENGINES", one, ENGINES) for one in (environ.get("ENGINES") or "kubeflow airflow").split()
        )
        kinds = tuple(_one_of("IMAGES", one, KINDS) for one in (environ.get("IMAGES") or " ".join(KINDS)).split())
        data = environ.get("DATA", "")
        if data not in ("", "destroy"):
            raise InputError(f"DATA={data}: expected destroy, or nothing, which keeps bucket, databases and images")
        return cls(
            cloud=cloud,
            context=context,
            engines=engines,
            skip=frozenset(environ.get("SKIP", "").split()),
            only=frozenset(environ.get("ONLY", "").split()),
            yes=environ.get("YES", "") == "1",
            plan_only=environ.get("PLAN", "") == "1",
            destroy_data=data == "destroy",
            tfvars=environ.get("TFVARS", ""),
            host=environ.get("AIRFLOW_HOST", ""),
            images={kind: environ[name] for kind in KINDS if environ.get(name := f"POSTTRAIN_IMAGE_{kind.upper()}")},
            kinds=tuple(kind for kind in kinds if kind != "airflow" or "airflow" in engines),
            root=Path(environ.get("DEPLOY_FOLDER") or BUILD),
        )


def _one_of(variable: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise InputError(f"{variable}={value or '(not set)'}: expected one of {', '.join(known)}")
    return value

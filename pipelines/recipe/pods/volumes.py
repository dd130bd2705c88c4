"""Volumes of a pool's pods, of the kinds that a namespace with the restricted security standard admits."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from pipelines.recipe.pods.values import Frozen, Label, ObjectName, Quantity, Text

_OWN = (
    *("/bin", "/boot", "/dev", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr"),
    *("/opt/posttrain", "/opt/venv", "/run/secrets", "/var/run/secrets"),
)
_WHOLE = ("/", "/etc", "/opt", "/run", "/var", "/var/run")
SOURCES = ("claim", "empty_dir", "ephemeral", "secret", "config_map", "csi")


def _mount(text: str) -> str:
    if not text.startswith("/") or posixpath.normpath(text) != text or text.startswith("//") or ":" in text:
        raise ValueError("expected an absolute path without '..', ':' or a slash at its end, such as /data")
    if text in _WHOLE or any(text == own or text.startswith(f"{own}/") for own in _OWN):
        raise ValueError(f"{text} is the image's or the system's; mount it elsewhere, such as at /data")
    return text


def _relative(text: str) -> str:
    if text.startswith("/") or ".." in text.split("/") or posixpath.normpath(text) != text:
        raise ValueError("expected a path below the volume's root, without '..'")
    return text


class EmptyDir(Frozen):
    """A folder that begins empty and goes with the pod: on the node's disk, or in memory."""

    size: Quantity | None = None
    """Beyond it the pod is evicted."""
    medium: Literal["", "Memory"] = ""
    """Memory counts towards memory_gib."""


class Ephemeral(Frozen):
    """A volume that the storage class makes for the pod and that goes with it, such as a node's NVMe."""

    size: Quantity
    storage_class: ObjectName | None = None
    access_mode: Literal["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"] = "ReadWriteOnce"


class InlineCsi(Frozen):
    """A volume of a CSI driver that needs no claim, such as gcsfuse.csi.storage.gke.io."""

    driver: ObjectName
    attributes: dict[Text, Text] = Field(default_factory=dict)


class Volume(Frozen):
    """A volume of a pool's pods: a mount path and one source."""

    mount: Annotated[Text, AfterValidator(_mount)]
    """Where the stage sees it; /tmp takes the place of the folder for temporary files."""
    read_only: bool = Field(default=False, strict=True)
    sub_path: Annotated[Text, AfterValidator(_relative)] | None = None
    """Folder of the volume that is mounted in the place of its root."""
    claim: ObjectName | None = None
    """PersistentVolumeClaim of the pods' namespace."""
    empty_dir: EmptyDir | None = None
    ephemeral: Ephemeral | None = None
    secret: ObjectName | None = None
    """Secret of the pods' namespace, whose keys become files."""
    config_map: ObjectName | None = None
    """ConfigMap, likewise."""
    csi: InlineCsi | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Volume:
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"a volume has one source of {', '.join(SOURCES)}; given: {', '.join(given) or 'none'}")
        return self

    def source(self, labels: dict[str, str] | None = None) -> dict[str, Any]:
        """Return the source as Kubernetes takes it; `labels` are those of a claim that is made for the pod."""
        if self.claim is not None:
            return {"persistentVolumeClaim": {"claimName": self.claim}}
        if self.secret is not None:
            return {"secret": {"secretName": self.secret}}
        if self.config_map is not None:
            return {"configMap": {"name": self.config_map}}
        if self.csi is not None:
            attributes = {"volumeAttributes": dict(self.csi.attributes)} if self.csi.attributes else {}
            return {"csi": {"driver": self.csi.driver, "readOnly": self.read_only, **attributes}}
        if self.ephemeral is not None:
            return {"ephemeral": {"volumeClaimTemplate": _claim(self.ephemeral, labels)}}
        assert self.empty_dir is not None
        size = {"sizeLimit": self.empty_dir.size} if self.empty_dir.size else {}
        medium = {"medium": self.empty_dir.medium} if self.empty_dir.medium else {}
        return {"emptyDir": {**medium, **size}}


def _claim(wanted: Ephemeral, labels: dict[str, str] | None) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "accessModes": [wanted.access_mode],
        "resources": {"requests": {"storage": wanted.size}},
    }
    if wanted.storage_class:
        spec["storageClassName"] = wanted.storage_class
    return {**({"metadata": {"labels": labels}} if labels else {}), "spec": spec}


def mounts_twice(volumes: Iterable[Volume]) -> Label | None:
    """Return a path at which two volumes are mounted, or None."""
    seen: set[str] = set()
    for volume in volumes:
        if volume.mount in seen:
            return volume.mount
        seen.add(volume.mount)
    return None

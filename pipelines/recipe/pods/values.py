"""Names and values that Kubernetes accepts, as types of a schema."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

_DOMAIN = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_NAME = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_OBJECT_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
PLACEHOLDER = "@sha256:" + "0" * 64
"""Placeholder digest of our images in infra's files until they are built and pushed."""
_IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}")
_RESOURCE = re.compile(rf"{_DOMAIN}/{_NAME}|hugepages-[1-9][0-9]*[KMG]i")
_QUANTITY = re.compile(r"[1-9][0-9]{0,14}(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)")
_TEMPLATES = ("$(", "{{", "{%")
"""What Kubernetes, Airflow and Kubeflow would replace."""
MAX_TEXT = 4096


def pinned_image(text: str) -> str:
    """Return an image that is named by digest; raise ValueError for a tag, which can move to another image."""
    if not _IMAGE.fullmatch(text):
        raise ValueError("expected an image by its digest: name@sha256:<64 hexadecimal digits>")
    if text.endswith(PLACEHOLDER):
        raise ValueError("its digest is a placeholder: put in what `make images` built and you pushed")
    return text


def object_name(text: str) -> str:
    """Return the name of a Kubernetes object; raise ValueError for an invalid name."""
    if not _OBJECT_NAME.fullmatch(text):
        raise ValueError("expected the name of a Kubernetes object: lower-case letters, digits, '-' and '.'")
    return text


def resource_name(text: str) -> str:
    """Return the name of an extended resource; raise ValueError for another, such as cpu, which has its own field."""
    if not _RESOURCE.fullmatch(text):
        raise ValueError("expected the name of a device plugin, such as vpc.amazonaws.com/efa, or hugepages-<size>")
    return text


def quantity(text: str) -> str:
    """Return an amount of bytes as Kubernetes writes it; raise ValueError for another text."""
    if not _QUANTITY.fullmatch(text):
        raise ValueError("expected an amount of bytes with its unit, such as 500Gi")
    return text


def plain_text(text: str) -> str:
    """Return a text that reaches a container as it is; raise ValueError for one that something would replace."""
    if not text.isprintable() or len(text) > MAX_TEXT:
        raise ValueError(f"expected one line of at most {MAX_TEXT} printable characters")
    if found := next((mark for mark in _TEMPLATES if mark in text), None):
        raise ValueError(f"expected text without {found!r}, which would be replaced on its way")
    return text


def _number_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


Label = Annotated[str, Field(pattern=rf"^({_DOMAIN}/)?{_NAME}$")]
LabelValue = Annotated[str, Field(pattern=rf"^({_NAME})?$")]
ObjectName = Annotated[str, AfterValidator(object_name)]
ResourceName = Annotated[str, AfterValidator(resource_name)]
"""Of a device plugin, or hugepages of a size."""
Image = Annotated[str, AfterValidator(pinned_image)]
Text = Annotated[str, BeforeValidator(_number_as_text), AfterValidator(plain_text)]
Quantity = Annotated[str, BeforeValidator(_number_as_text), AfterValidator(quantity)]


class Frozen(BaseModel):
    """A part of the file of pools: nothing unknown, nothing changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, serialize_by_alias=True)

"""Placeholders in manifests and values, and what `terraform output` puts in their place; nobody writes them by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from infra.deploy.tools import StepFailed

PLACEHOLDERS = ("ACCOUNT", "BUCKET", "CLUSTER", "HOST", "PROJECT", "REGION")
NO_DIGEST = "0" * 64
AWS_NETWORK, GCP_NETWORK = "10.60.0.0/16", "10.70.0.0/16"
"""What the overlays call the network of the database: the default of terraform's variable."""
_LEFT = re.compile(rf"(?<![A-Za-z_])(?:{'|'.join(PLACEHOLDERS)})(?![A-Za-z_])|{NO_DIGEST}")

Words = Mapping[str, str]


def words(cloud: str, outputs: Mapping[str, Any], images: Mapping[str, str], host: str) -> dict[str, str]:
    """Return what stands in a manifest -> what belongs there."""
    found = {_image(cloud, kind): name for kind, name in images.items()}
    if host:
        found["HOST"] = host
    if cloud == "local":
        return found
    bucket = str(outputs["store"]).removeprefix("s3://").partition("/")[0]
    found |= {"BUCKET": bucket, "REGION": outputs["region"], "CLUSTER": outputs["cluster"]}
    if cloud == "aws":
        found |= {f"arn:aws:iam::ACCOUNT:role/posttrain-{role}": arn for role, arn in outputs["roles"].items()}
        found[AWS_NETWORK] = outputs["network"]
    else:
        found |= {f"posttrain-{role}@PROJECT.iam.gserviceaccount.com": mail for role, mail in outputs["roles"].items()}
        found |= {"PROJECT": outputs["project"], GCP_NETWORK: outputs["network"]}
    return found


def filled(value: Any, given: Words) -> Any:
    """Return YAML with every placeholder of its texts replaced; the longest first, and keys left alone."""
    if isinstance(value, dict):
        return {key: filled(one, given) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, given) for one in value]
    if not isinstance(value, str):
        return value
    if not given:
        return value
    longest_first = "|".join(re.escape(one) for one in sorted(given, key=len, reverse=True))
    return re.sub(rf"(?<![A-Za-z_])(?:{longest_first})(?![A-Za-z_])", lambda found: given[found[0]], value)


def check_filled(what: str, value: Any) -> None:
    """Raise StepFailed if a placeholder is left: what was applied would name nothing that exists."""
    if left := sorted({found for text in texts(value) for found in _LEFT.findall(text)}):
        names = ", ".join("an image's digest" if one == NO_DIGEST else one for one in left)
        raise StepFailed(f"{what}: nothing says what to put for {names}: take the steps cloud and images first")


def _image(cloud: str, kind: str) -> str:
    """Return how the manifests name one of our images."""
    registry = {
        "aws": "ACCOUNT.dkr.ecr.us-east-2.amazonaws.com",
        "gcp": "REGION-docker.pkg.dev/PROJECT/posttrain",
        "local": "localhost",
    }[cloud]
    name = f"{registry}/posttrain-{kind}"
    return f"{name}:latest" if cloud == "local" else f"{name}@sha256:{NO_DIGEST}"


def texts(value: Any) -> list[str]:
    """Return all texts in a document, at any depth."""
    if isinstance(value, dict):
        return [text for one in value.values() for text in texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in texts(one)]
    return [value] if isinstance(value, str) else []

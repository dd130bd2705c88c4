"""Names and values in the form that MLflow accepts.

MLflow 3.17 refuses metric, parameter and tag names with characters other than letters, digits and "_-. :/", names that
are not a normalised relative path, and names over 250 characters; dataset digests have at most 36 characters.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

FORBIDDEN = re.compile(r"[^A-Za-z0-9_\-. :/]")
SPELLED = {"@": "_at_", "%": "_percent_"}
MAX_NAME = 250
MAX_VALUE = 6000
"""MLflow's limit for parameters; tags may be longer."""
DATASET_DIGEST = 36


def mlflow_name(name: str) -> str:
    """Return `name` in a form that MLflow accepts, deterministically.

    "pass@1" becomes "pass_at_1"; any other forbidden character becomes "_x", its hexadecimal code point and "_", so
    that names hardly ever collide.
    """
    clean = FORBIDDEN.sub(lambda found: SPELLED.get(found[0], f"_x{ord(found[0]):02x}_"), name)
    if posixpath.normpath(clean) != clean or clean.startswith(("/", "..")) or clean == ".":
        clean = clean.replace("/", "_x2f_").replace("..", "_x2e__x2e_") or "_"
        clean = "_x2e_" if clean == "." else clean
    if len(clean) > MAX_NAME:
        clean = f"{clean[: MAX_NAME - 13]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    return clean


def mlflow_value(value: Any) -> str:
    """Return a parameter's or tag's value as text: text unchanged, the rest as JSON, shortened to MLflow's limit."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    if len(text) <= MAX_VALUE:
        return text
    return f"{text[: MAX_VALUE - 80]}... sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def flatten(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted name and value of every leaf of nested parameters; lists are leaves."""
    for name, value in params.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def dataset_digest(digest: str) -> str:
    """Return an artifact's digest, cut to the length of MLflow's dataset digests."""
    return digest[:DATASET_DIGEST]

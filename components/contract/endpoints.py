"""Endpoint: an OpenAI-compatible server that replaces a model that a stage queries. It never holds a key."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from components.contract.artifacts import ArtifactType, FileEntry, Manifest, canonical_json, hash_parts

SCHEME = "endpoint"
"""Scheme of the URI by which recipes and jobs name an endpoint: endpoint:<name>."""
FILE = "endpoint.json"
"""The one file of an endpoint's Model artifact: what affects its answers, without address and key."""
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NO_SECRETS = "an address holds no user, password, query or fragment; the key comes from 'key_env'"

Api = Literal["chat", "completions"]

_OWN_FIELDS = frozenset(
    {"model", "messages", "prompt", "n", "seed", "stream", "max_tokens", "max_completion_tokens", "echo", "logprobs"}
)


def _address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("expected an address such as https://host/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(NO_SECRETS)
    return text.rstrip("/")


def _variable(text: str) -> str:
    if not VARIABLE.fullmatch(text):
        raise ValueError("expected the name of an environment variable")
    return text


def _settings(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if own := sorted(_OWN_FIELDS & value.keys()):
        raise ValueError(f"{', '.join(own)} is set by the stage that asks")
    canonical_json(value)  # refuses NaN and infinities
    return value


class Endpoint(BaseModel):
    """How to reach a server, what to ask of it, and how gently."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    summary: str = ""
    """One line for people."""
    base_url: Annotated[str, AfterValidator(_address)]
    """Address of the API, with its version: https://host/v1. Another address changes no fingerprint."""
    model: str = Field(min_length=1, max_length=256)
    """Name of the model as the server knows it."""
    api: Api = "chat"
    """chat writes; completions writes and, where the server echoes prompts with log-probabilities, scores."""
    key_env: Annotated[str, AfterValidator(_variable)] | None = None
    """Environment variable that holds the key; none for a server that asks for no key."""
    generation: Annotated[dict[str, JsonValue], AfterValidator(_settings)] = Field(default_factory=dict)
    """Further fields of every request that writes, such as top_p; null leaves a field out. They count for the
    fingerprint."""
    seeds: bool = True
    """Whether requests carry a seed; false for servers that refuse the field."""
    length_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Name of the field that bounds the tokens of an answer."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    """Most requests that begin in a minute; no limit of ours unless set."""
    tokens_per_minute: float | None = Field(default=None, gt=0)
    """Most tokens of a minute, prompts and answers together, as far as they can be estimated before they are asked."""
    concurrency: int = Field(default=8, ge=1, le=256)
    """Most requests at a time."""
    timeout_seconds: float = Field(default=120.0, gt=0, le=3600)
    """Longest time that one try of a request may take, from its first byte to its last."""
    retries: int = Field(default=5, ge=0, le=20)
    """Further tries of a request after 429, 5xx, a timeout, a broken connection or an answer that cannot be read."""
    max_wait_seconds: float = Field(default=60.0, ge=0, le=3600)
    """Longest pause before a further try; a server that asks for a longer one counts as down."""

    def counted(self, name: str) -> dict[str, Any]:
        """Return what affects answers, and so fingerprints: neither address nor key nor limits."""
        return {
            "name": name,
            "model": self.model,
            "api": self.api,
            "generation": self.generation,
            "seeds": self.seeds,
        }


def endpoint_name(uri: str) -> str | None:
    """Return the name of the endpoint that a URI refers to, or None for any other URI."""
    scheme, colon, name = uri.partition(":")
    return name if colon and scheme == SCHEME else None


def endpoint_file(name: str, endpoint: Endpoint) -> bytes:
    """Return the bytes of the file that represents an endpoint in the store."""
    return canonical_json(endpoint.counted(name)) + b"\n"


def endpoint_manifest(name: str, endpoint: Endpoint) -> Manifest:
    """Return the manifest of the Model artifact that represents an endpoint."""
    data = endpoint_file(name, endpoint)
    entry = FileEntry(path=FILE, sha256=hashlib.sha256(data).hexdigest(), size=len(data))
    return Manifest(type=ArtifactType.MODEL, files=(entry,))


def request_key(counted: dict[str, Any], request: dict[str, Any], sample: int) -> str:
    """Return the address of an answer: the SHA-256 hex of endpoint, request and sample index."""
    return hash_parts(canonical_json(counted), canonical_json(request), str(sample))

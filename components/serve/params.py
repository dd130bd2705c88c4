"""Parameters of the serve stage."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, model_validator

from components.contract.job import Resources
from components.measure.measure_params import MeasureParams

SERVICE = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
"""A name that Kubernetes takes for a service."""
STORAGE = re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"']+")


class ServeParams(MeasureParams):
    """How a model is asked through a server's API, as stage evaluate samples it, and what the server may take."""

    api: Literal["auto", "chat", "completions"] = "auto"
    """What is asked: chat completions, whose template the server applies, or completions of plain text; auto: chat
    where the model has a chat template."""
    concurrency: int = Field(default=16, ge=1, le=256)
    """Requests at a time."""
    start_timeout_seconds: float = Field(default=900.0, gt=0, le=7200)
    """How long the server may take to become healthy."""
    request_timeout_seconds: float = Field(default=120.0, gt=0, le=3600)
    """Longest time that one try of a request may take."""
    retries: int = Field(default=2, ge=0, le=20)
    """Further tries of a request that failed; after them it counts as failed."""
    max_failed_share: float = Field(default=0.05, ge=0, lt=1)
    """Most failed requests, as a share of all: with more the stage fails. Failed ones are never wrong answers."""
    check: bool = True
    """Whether transformers loads the exported folder first, and its logits are compared with the trained model's, which
    needs the memory of both."""
    service: str = ""
    """Name of the KServe InferenceService; empty: made of the model's digest."""
    storage_uri: str = ""
    """Where the cluster finds the model's files; empty: where the store has them, if that is a bucket."""
    cluster_cpus: int | None = Field(default=None, ge=1)
    """Cores of the InferenceService; unset, those of the stage's pool."""
    cluster_memory_gib: float | None = Field(default=None, gt=0)
    """Its memory; unset, that of the stage's pool."""
    cluster_gpus: int | None = Field(default=None, ge=0)
    """Its GPUs, over which vLLM splits the model; unset, those of the stage's pool."""

    def wanted_ks(self, domain: str) -> list[int]:
        """Return the values of k to measure on `domain`: all from 1 to its samples."""
        return list(range(1, self.sampling(domain).num_samples + 1))

    @property
    def rows_at_a_time(self) -> int:
        """Return how many requests are under way at a time: no more than `max_batch_tokens` allows."""
        return max(1, min(self.concurrency, self.max_batch_tokens // self.max_new_tokens))

    @model_validator(mode="after")
    def _a_server_can_do_it(self) -> Self:
        if self.keep_special_tokens:
            raise ValueError("keep_special_tokens: a server leaves special tokens out of its texts; leave it out")
        if self.service and not SERVICE.fullmatch(self.service):
            raise ValueError(
                f"service: {self.service!r} is no name of a service: a-z, 0-9 and -, at most 63 characters"
            )
        if self.storage_uri and not STORAGE.fullmatch(self.storage_uri):
            raise ValueError(f"storage_uri: {self.storage_uri!r} is no address such as s3://bucket/models/mine")
        return self


def on_pool(params: ServeParams, resources: Resources) -> ServeParams:
    """Return the parameters with the pool's cores, memory and GPUs in the manifest, where the recipe names none."""
    pool = {
        "cluster_cpus": resources.cpus,
        "cluster_memory_gib": resources.memory_gib,
        "cluster_gpus": resources.gpus,
    }
    return params.model_copy(update={name: value for name, value in pool.items() if getattr(params, name) is None})

"""The words of the recipe language: which keys exist where, and what their values are.

Inputs, parameters and matrices refer to other things and are checked in separate modules; everything that can be
checked on its own is declared here.
"""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from components.contract.alarms import OnAlarm
from components.contract.backends import Backends
from components.contract.job import OnFailure

_HEAD_KEYS = ("name", "summary", "seed", "params", "defaults", "extends", "matrix", "code")
_RUN_KEYS = ("fork", "moved", "budget", "without", "licenses")
RECIPE_KEYS = (*_HEAD_KEYS, "stages", "sweep", "schedule", "hallmark", "system", *_RUN_KEYS)
GROUP_KEYS = ("repeat", "carry", "stages", "yield", "matrix", "summary")
_RUNNING_KEYS = ("pool", "backend", "retries", "backoff", "timeout", "on_alarm", "on_failure")
DEFAULT_KEYS = (*_RUNNING_KEYS, "integrity", "keep_partial", "with")
RESERVED = ("params", "matrix", "round", "seed", "carry", "and", "or", "not", "true", "false", "null", "none", "in")
"""Names reserved in references and expressions, so no stage may have them."""

MAX_SEED = 2**32 - 1
MAX_RETRIES = 20
SPOT_RETRIES = 3
"""Of a stage on a spot pool whose recipe names no number: its node may be taken away at any time."""
MAX_TIMEOUT_SECONDS = 366 * 86_400.0
MAX_SUMMARY_LENGTH = 500
MAX_CELLS = 1000
MAX_ROUNDS = 100
MAX_STAGES = 2000

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_EVERY = re.compile(r"every\s+([0-9]{1,12})")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_ALIAS = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,63}")
_REGISTERED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


def _seconds(value: Any) -> float:
    """Return seconds from a number or a text such as "90s" or "2h"."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        found = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
        if found is None:
            raise ValueError("expected a duration: seconds, or a number with ms, s, m, h or d, such as 90s or 2h")
        seconds = float(found[1]) * _UNITS[found[2]]
    if not 0 <= seconds <= MAX_TIMEOUT_SECONDS:
        raise ValueError("expected a duration between 0 and 366 days")
    return seconds


def _positive(seconds: float) -> float:
    if seconds <= 0:
        raise ValueError("expected a duration longer than 0")
    return seconds


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _as_approval(value: Any) -> Any:
    if value is not None and not isinstance(value, bool | dict | ApprovalWords):
        raise ValueError("expected true, false, or a mapping such as {message: ..., timeout: 2h, on_timeout: approve}")
    return {True: {}, False: None}[value] if isinstance(value, bool) else value


def _as_registration(value: Any) -> Any:
    if value is not None and not isinstance(value, str | dict | RegistrationWords):
        raise ValueError("expected a name, or a mapping such as {name: ..., aliases: [candidate]}")
    return {"name": value} if isinstance(value, str) else value


def _registered(value: str) -> str:
    if not _REGISTERED.fullmatch(value):
        raise ValueError("expected letters, digits, '.', '_' or '-', at most 128 of them")
    return value


def _alias(value: str) -> str:
    if not _ALIAS.fullmatch(value):
        raise ValueError("expected a letter, then letters, digits, '.', '_' or '-', at most 64 of them")
    return value


def _alarm_bound(value: Any) -> float | None:
    if value == "off":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("expected a number, or off")
    return float(value)


def _every(value: Any) -> Any:
    """Return the number of `every N`."""
    found = _EVERY.fullmatch(value.strip()) if isinstance(value, str) else None
    number = int(found[1]) if found else value
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise ValueError("expected a number of steps, such as `every 50`")
    return number


Bound = Annotated[float | None, BeforeValidator(_alarm_bound)]
Every = Annotated[int, BeforeValidator(_every)]
Seconds = Annotated[float, BeforeValidator(_seconds)]
Timeout = Annotated[float, BeforeValidator(_seconds), AfterValidator(_positive)]
Seed = Annotated[int, Field(strict=True, ge=0, le=MAX_SEED)]
Lines = Annotated[list[Annotated[str, Field(min_length=1)]], BeforeValidator(_as_list)]
Registered = Annotated[str, AfterValidator(_registered)]
Alias = Annotated[str, AfterValidator(_alias)]


class _Words(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ApprovalWords(_Words):
    """`approve: true`, or a mapping with a message and the outcome if nobody answers."""

    message: str = Field(default="Continue?", min_length=1, max_length=MAX_SUMMARY_LENGTH)
    timeout: Timeout | None = None
    on_timeout: Literal["approve", "reject"] = "reject"


class RegistrationWords(_Words):
    """`register: name`, or a mapping with the aliases of the registered version."""

    name: Registered
    aliases: list[Alias] = Field(default_factory=lambda: ["candidate"])


class ExpectationWords(_Words):
    """One Great Expectations expectation on the rows of an output."""

    port: str
    type: str
    kwargs: dict[str, Any] = Field(default_factory=dict)


class StageWords(_Words):
    """Keys of a stage other than its component, inputs, parameters and matrix."""

    pool: str = "cpu"
    backend: Backends | None = None
    """Sampler and trainer that override the pool's choice."""
    seed: Seed | None = None
    retries: int = Field(default=0, strict=True, ge=0, le=MAX_RETRIES)
    backoff: Seconds = 2.0
    timeout: Timeout | None = None
    when: str | bool | None = None
    gate: Lines = Field(default_factory=list)
    approve: Annotated[ApprovalWords | None, BeforeValidator(_as_approval)] = None
    expect: list[ExpectationWords] = Field(default_factory=list)
    after: Lines = Field(default_factory=list)
    integrity: Literal["required", "report"] | None = None
    """Whether its reward is audited before it runs, and whether it runs all the same if there are findings."""
    registration: Annotated[RegistrationWords | None, BeforeValidator(_as_registration)] = Field(
        default=None, alias="register"
    )
    summary: str = Field(default="", max_length=MAX_SUMMARY_LENGTH)
    on_alarm: OnAlarm = "warn"
    """Whether an alarm is shown, ends the stage, or returns it to its last checkpoint from before the alarm."""
    on_failure: OnFailure = "stop"
    """Whether the run stops when the stage has failed for good, or goes on without it."""
    alarms: dict[str, Bound] = Field(default_factory=dict)
    """Bounds that replace those of the component's alarms; `off` turns one off."""
    keep_partial: Every | None = None
    """Steps between the checkpoints that outlive the stage, so that a run can be forked there."""


STAGE_KEYS = ("uses", "in", "with", "matrix", *(info.alias or name for name, info in StageWords.model_fields.items()))


def format_duration(seconds: float) -> str:
    """Return a readable duration: 90s, 12m, 2h."""
    for unit in ("d", "h", "m"):
        size = _UNITS[unit]
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def metric_fits(name: str, known: str) -> bool:
    """Return whether a declared metric covers a name: "pass_at_<k>_<domain>" by form, "loss" also loss_A."""
    pattern = re.sub(r"<[^<>]*>", ".+", re.sub(r"([^\w<>])", r"\\\1", known, flags=re.ASCII))
    return re.fullmatch(f"{pattern}([_/@-].+)?", name) is not None

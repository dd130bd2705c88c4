"""The chain that rows pass: split, duplicates, leaks, near duplicates, verifiability, then difficulty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any, Protocol

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.curation.candidate import RowCheck
from components.curation.operators.decontaminate import Contamination, DecontaminateConfig, evaluation_prompts
from components.curation.operators.dedup import DedupConfig, ExactDuplicates, NearDuplicates
from components.curation.operators.difficulty import Difficulty, DifficultyConfig
from components.curation.operators.verifiability import Verifiability, VerifiabilityConfig
from components.curation.split import HashSplit


class ChainParams(Protocol):
    """The parameters of a stage whose rows pass the chain."""

    @property
    def split(self) -> tuple[float, float]:
        """Return the part of [0, 1) in which hashes of prompts are kept."""

    @property
    def dedup(self) -> DedupConfig:
        """Return which duplicates are removed."""

    @property
    def decontaminate(self) -> DecontaminateConfig | None:
        """Return what counts as a leak."""

    @property
    def verifiability(self) -> VerifiabilityConfig | None:
        """Return what a verifier must satisfy."""

    @property
    def difficulty(self) -> DifficultyConfig | None:
        """Return the range of pass rates to keep."""


def row_checks(
    params: ChainParams, against: Iterable[Path], seed: int, filters: Sequence[RowCheck] = ()
) -> list[RowCheck]:
    """Return the checks in order, cheap ones first; a row is dropped for the first one it fails.

    `against` are the folders of evaluation sets that must not leak into the dataset, `filters` a stage's own checks.
    """
    checks: list[RowCheck] = []
    if params.split != (0.0, 1.0):
        checks.append(HashSplit(*params.split))
    if params.dedup.exact:
        checks.append(ExactDuplicates())
    checks += filters
    against = list(against)
    if against and params.decontaminate:
        checks.append(Contamination(evaluation_prompts(against), params.decontaminate))
    if params.dedup.near:
        checks.append(NearDuplicates(params.dedup.near))
    if params.verifiability:
        checks.append(Verifiability(params.verifiability, seed))
    return checks


def opened_difficulty(
    config: DifficultyConfig | None, context: StageContext[Any]
) -> AbstractContextManager[Difficulty | None]:
    """Return what measures difficulty, to be used in a `with`; raise InputError if no model is connected for it."""
    if config is None:
        return nullcontext()
    if not context.inputs("policy"):
        raise InputError("difficulty: no model is connected; give the stage `in: {policy: STAGE.model}`")
    return closing(Difficulty(config, context))

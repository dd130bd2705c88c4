"""Parameters of the curate stage."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.contract.params import Params
from components.curate.operators.decontaminate import DecontaminateConfig
from components.curate.operators.dedup import DedupConfig
from components.curate.operators.difficulty import DifficultyConfig
from components.curate.operators.verifiability import VerifiabilityConfig
from components.curate.switch import SWITCH
from components.tasks.slots import DEMONSTRATOR, SOURCE
from components.tasks.source import SourceConfig


class DemonstratorShare(Params):
    """A demonstrator and how often it is used."""

    demonstrator: Annotated[OperatorSpec, DEMONSTRATOR]
    """The demonstrator with its config keys."""
    weight: float = Field(default=1.0, gt=0)
    """Its share among the demonstrators of its source, relative to theirs."""
    label: str | None = None
    """Value of `quality` in its rows; by default the demonstrator's name."""

    @model_validator(mode="after")
    def _known(self) -> DemonstratorShare:
        self.demonstrator.resolve()
        return self


class SourceShare(Params):
    """One source, and how many rows are taken from it."""

    source: Annotated[OperatorSpec, SOURCE]
    """The source with its config keys."""
    domain: str | None = Field(default=None, min_length=1)
    """The domain of its rows; none keeps each row's own."""
    weight: float = Field(default=1.0, gt=0)
    """Its share of `size` among the sources without a count."""
    count: int | None = Field(default=None, ge=0)
    """How many rows to take from it, regardless of the weights."""
    demonstrators: tuple[DemonstratorShare, ...] = ()
    """The mixture that writes its responses; without one, rows keep their response or get the reference answer."""

    @model_validator(mode="after")
    def _known(self) -> SourceShare:
        self.source.resolve()
        return self

    @property
    def endless(self) -> bool:
        """Return whether the source makes any number of rows."""
        config = self.source.resolve().config
        return isinstance(config, SourceConfig) and config.endless


class CurateParams(Params):
    """Parameters of the curate stage."""

    sources: tuple[SourceShare, ...] = Field(min_length=1)
    """Where rows come from."""
    kind: Literal["prompts", "demonstrations", "corpus"] = "prompts"
    """What to make: prompts, prompts with responses, or plain text."""
    size: int | None = Field(default=None, ge=0)
    """How many rows to make, divided among the sources by weight; none takes all rows of the sources."""
    split: tuple[float, float] = (0.0, 1.0)
    """Keep prompts whose hash falls in this part of [0, 1); stages with disjoint parts share no prompt."""
    dedup: DedupConfig = DedupConfig()
    """Removal of duplicates."""
    decontaminate: Annotated[DecontaminateConfig | None, SWITCH] = DecontaminateConfig()
    """Removal of rows that leak prompts of the datasets at input `against`."""
    verifiability: Annotated[VerifiabilityConfig | None, SWITCH] = VerifiabilityConfig()
    """Proof that each row's verifier accepts the reference answer and rejects mutated ones."""
    difficulty: Annotated[DifficultyConfig | None, SWITCH] = None
    """Selection by the pass rate of the model at input `policy`."""
    separator: str = "\n"
    """Text between prompt and response in a corpus."""
    shuffle: bool = True
    """Whether rows are shuffled; otherwise they follow the order of the sources."""

    @model_validator(mode="after")
    def _consistent(self) -> CurateParams:
        low, high = self.split
        if not 0 <= low < high <= 1:
            raise InputError(f"split: expected 0 <= low < high <= 1, found {list(self.split)}")
        if self.kind == "corpus" and self.difficulty:
            raise InputError("difficulty: a corpus has no prompts to be answered; use kind: prompts")
        if self.kind == "prompts" and any(share.demonstrators for share in self.sources):
            raise InputError("demonstrators: prompts have no responses; use kind: demonstrations")
        for share in self.sources:
            if share.endless and share.count is None and self.size is None:
                raise InputError(f"source {share.source.name!r} never ends: set its `count`, or `size`")
        return self

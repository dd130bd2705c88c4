"""Parameters of the curate stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from components.contract.errors import InputError, UnknownName
from components.contract.operators import Bound, OperatorRefused, OperatorSpec
from components.contract.params import Params, check_part
from components.curate.selection.config import MixtureConfig
from components.curate.slots import MIXTURE, SELECTOR
from components.curate.stream_config import MAX_SHARDS, ShardConfig, StreamConfig
from components.curation.operators.decontaminate import DecontaminateConfig
from components.curation.operators.dedup import DedupConfig
from components.curation.operators.difficulty import DifficultyConfig
from components.curation.operators.language import LanguageConfig
from components.curation.operators.quality import QualityConfig
from components.curation.operators.verifiability import VerifiabilityConfig
from components.curation.switch import SWITCH
from components.modeling.text.overlong import Overlong
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
    weight: float = Field(default=1.0, ge=0)
    """Its share of `size` among the sources without a count; with 0 it gives no rows."""
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
    contradictions: Literal["first", "all_accepted", "drop"] = "first"
    """What becomes of a prompt that several rows answer differently, counted as `contradiction`: its first answer
    stays, all of them are right (verifier exact), or it is dropped."""
    max_prompt_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of a prompt, as the model at input `policy` reads it with its chat template; none for no limit."""
    overlong: Overlong = "drop"
    """What becomes of a prompt of more tokens: dropped and counted as `overlong`, cut on the left (a conversation is
    dropped), or refused with its file and line."""
    language: Annotated[LanguageConfig | None, SWITCH] = None
    """Removal of rows whose text, or prompt, is of another language; off unless configured."""
    quality: Annotated[QualityConfig | None, SWITCH] = None
    """Removal of poor texts from a corpus by the rules of Gopher and C4; off unless configured."""
    decontaminate: Annotated[DecontaminateConfig | None, SWITCH] = DecontaminateConfig()
    """Removal of rows that leak prompts of the datasets at input `against`."""
    verifiability: Annotated[VerifiabilityConfig | None, SWITCH] = VerifiabilityConfig()
    """Proof that each row's verifier accepts the reference answer and rejects mutated ones."""
    difficulty: Annotated[DifficultyConfig | None, SWITCH] = None
    """Selection by the pass rate of the model at input `policy`."""
    mixture: Annotated[OperatorSpec, MIXTURE] = OperatorSpec(name="declared")
    """What shares `size` out among the sources without a count: their weights, or a measurement."""
    selectors: Annotated[tuple[OperatorSpec, ...], SELECTOR] = ()
    """Which of the rows that passed all checks are kept, by operators that see them all; in order."""
    streamed: Annotated[StreamConfig | None, SWITCH] = None
    """Whether a corpus passes in parts on disk, for more rows than fit in memory; all rows of the sources are taken."""
    shards: int | None = Field(default=None, ge=1, le=MAX_SHARDS)
    """Stages that check a share of a streamed corpus each, side by side, before this one joins what they kept."""
    shard: ShardConfig | None = None
    """The share that this stage checks; `shards` adds the stages that have one, and a recipe sets none."""
    separator: str = "\n"
    """Text between prompt and response in a corpus."""
    count_tokens: bool = False
    """Whether the card counts tokens by the tokenizer of the model at input `policy`, or words without one."""
    shuffle: bool = True
    """Whether rows are shuffled; otherwise they follow the order of the sources."""

    @model_validator(mode="after")
    def _consistent(self) -> CurateParams:
        check_part("split", self.split)
        if self.kind == "corpus" and self.difficulty:
            raise InputError("difficulty: a corpus has no prompts to be answered; use kind: prompts")
        if self.kind != "corpus" and self.quality:
            raise InputError(
                "quality: its rules are for running text, and would drop any short prompt; use kind: corpus"
            )
        if self.kind == "corpus" and self.max_prompt_tokens:
            raise InputError("max_prompt_tokens: a corpus has no prompts; leave it out, or use kind: prompts")
        if self.kind == "prompts" and any(share.demonstrators for share in self.sources):
            raise InputError("demonstrators: prompts have no responses; use kind: demonstrations")
        for share in self.sources:
            if share.endless and share.count is None and self.size is None:
                raise InputError(f"source {share.source.name!r} never ends: set its `count`, or `size`")
        weights = [share.weight for share in self.sources if share.count is None]
        if self.size is not None and weights and not any(weights):
            raise InputError("sources: all weights are 0; nothing could be shared out")
        self._mixture_fits()
        self._can_stream()
        names = [spec.name for spec in self.selectors]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"selectors: {twice!r} is there twice; each selector decides once")
        return self

    def _can_stream(self) -> None:
        """Raise InputError for what needs all rows in memory, or counts rows before duplicates are known."""
        if not self.streamed:
            if self.shards or self.shard:
                raise InputError("shards: only a streamed corpus is divided; set `streamed: on`, or leave `shards` out")
            return
        if self.shards and self.shard:
            raise InputError("shard: `shards` adds the stages with a share each; set only `shards`")
        if self.kind != "corpus":
            raise InputError(f"streamed: {self.kind} are not streamed; use kind: corpus, or leave `streamed` out")
        if self.size is not None or any(share.count is not None for share in self.sources):
            raise InputError("streamed: all rows of the sources are taken; leave out `size` and every `count`")
        if self.selectors:
            raise InputError("streamed: selectors see all rows at once; leave them out, or leave `streamed` out")

    def _mixture_fits(self) -> None:
        """Raise InputError for a mixture that nothing would be shared out by, or that knows no source by its domain."""
        found = next(readable((self.mixture,)), None)
        if found is None or not isinstance(found.config, MixtureConfig) or not found.config.by_domain:
            return
        if self.size is None:
            raise InputError(f"mixture {found.shown}: set `size`, which it shares out among the sources")
        open_sources = [share for share in self.sources if share.count is None]
        if not open_sources:
            raise InputError(f"mixture {found.shown}: every source has a `count`; leave one out for it to share")
        if nameless := next((share for share in open_sources if share.domain is None), None):
            raise InputError(f"mixture {found.shown}: source {nameless.source.name!r} has no `domain` to be shared by")


def readable(specs: tuple[OperatorSpec, ...]) -> Iterator[Bound]:
    """Yield the operators that are valid; the others are told where the recipe names them."""
    for spec in specs:
        try:
            yield spec.resolve()
        except (UnknownName, OperatorRefused):
            continue

"""Parameters of the synthesize stage."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.contract.params import Params, check_part
from components.curation.operators.decontaminate import DecontaminateConfig
from components.curation.operators.dedup import DedupConfig
from components.curation.operators.difficulty import DifficultyConfig
from components.curation.operators.verifiability import VerifiabilityConfig
from components.curation.switch import SWITCH
from components.synthesize.config import GeneratorConfig
from components.synthesize.slots import GENERATOR
from components.tasks.slots import DEMONSTRATOR


class SynthesizeParams(Params):
    """Parameters of the synthesize stage."""

    generator: Annotated[OperatorSpec, GENERATOR]
    """How rows are made."""
    programs: Annotated[tuple[OperatorSpec, ...], DEMONSTRATOR] = ()
    """Demonstrators that write beside the models at input `teachers`, with error rates of their own."""
    judge_programs: Annotated[tuple[OperatorSpec, ...], DEMONSTRATOR] = ()
    """Demonstrators that judge beside the models at input `judges`."""
    size: int | None = Field(default=None, ge=1)
    """How many rows to make; none makes what `rounds` passes over the items give."""
    min_share: float = Field(default=0.5, ge=0, le=1)
    """The stage fails if it makes less than this share of `size`; what is missing otherwise is counted."""
    rounds: int = Field(default=1, ge=1)
    """Most passes over the items; each draws anew, and the last ends as soon as there are enough rows."""
    chunk: int = Field(default=256, ge=1)
    """Items given to the generator at once; a checkpoint follows each chunk, and texts are drawn together within it."""
    pass_rate: tuple[float, float] | None = None
    """Take only items whose pass rate in input `ledger` lies in this range, both ends included."""
    split: tuple[float, float] = (0.0, 1.0)
    """Keep prompts whose hash falls in this part of [0, 1), as in curate."""
    dedup: DedupConfig = DedupConfig()
    """Removal of duplicates."""
    decontaminate: Annotated[DecontaminateConfig | None, SWITCH] = DecontaminateConfig()
    """Removal of rows that leak prompts of the datasets at input `against`."""
    verifiability: Annotated[VerifiabilityConfig | None, SWITCH] = VerifiabilityConfig()
    """Proof that each row's verifier accepts the reference answer and rejects mutated ones; not asked of rows whose
    generator gives no answers."""
    difficulty: Annotated[DifficultyConfig | None, SWITCH] = None
    """Selection by the pass rate of the model at input `policy`."""
    shuffle: bool = True
    """Whether rows are shuffled; otherwise they follow the order of the items."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the weights of models that write or judge."""

    @property
    def making(self) -> GeneratorConfig:
        """Return the generator's config."""
        config = self.generator.resolve().config
        assert isinstance(config, GeneratorConfig), "the slot checks it"
        return config

    @model_validator(mode="after")
    def _consistent(self) -> SynthesizeParams:
        making = self.making
        for program in (*self.programs, *self.judge_programs):
            program.resolve()
        check_part("split", self.split)
        if self.pass_rate and not 0 <= self.pass_rate[0] <= self.pass_rate[1] <= 1:
            raise InputError(f"pass_rate: expected 0 <= low <= high <= 1, found {list(self.pass_rate)}")
        name = self.generator.name
        if not making.seeded and self.size is None:
            raise InputError(f"generator {name!r} makes rows without end: set `size`")
        if self.judge_programs and not making.judges:
            raise InputError(f"judge_programs: generator {name!r} asks no judges")
        if self.programs and not making.writes:
            raise InputError(f"programs: generator {name!r} asks no writers")
        if self.difficulty and not (making.labelled and making.kind in ("prompts", "demonstrations")):
            raise InputError(f"difficulty: rows of generator {name!r} have no answers that a pass rate could count")
        return self

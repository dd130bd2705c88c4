"""Parameters of the rl stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from components.contract.errors import InputError
from components.contract.operators import Bound
from components.contract.params import Params
from components.modeling.models.lora import LoraConfig
from components.modeling.text.overlong import Overlong
from components.modeling.training.training_config import OptimizerConfig
from components.rl.group_checks import check_groups
from components.rl.labels import check_ignored
from components.rl.overrides import with_overrides
from components.rl.phase_config import Phase, check_phases
from components.rl.presets import bind, load_preset, override, preset_path
from components.rl.sampler_correction import SamplerCorrection
from components.rl.slots import SlotSpecs, step_slots


class RLOptimizerConfig(OptimizerConfig):
    """Optimiser and learning-rate schedule, with the defaults of this stage."""

    warmup_steps: int = Field(default=5, ge=0)
    """Updates in which the learning rate rises linearly to its peak."""


class RecordConfig(Params):
    """Which responses are kept in the rollouts output, for people and for rehearsal."""

    browse_every: int = Field(default=10, ge=1)
    """Steps between samples for people; the last step always has some."""
    browse_samples: int = Field(default=16, ge=0)
    """Responses kept at each of these steps, spread evenly from worst to best reward."""
    right_samples: int = Field(default=2048, ge=0)
    """Right responses kept for rehearsal: the latest ones, without repeats."""
    audit: bool = True
    """Whether samples for people are audited as they come: phrases and lengths that high rewards of one outcome share.
    A reward that is its verdict has nothing to audit."""


class HeldoutConfig(Params):
    """How often, and on how many prompts of input `heldout`, the pass rate is measured while training."""

    every: int = Field(default=10, ge=1)
    """Steps between measurements; the first and the last step always have one."""
    prompts: int = Field(default=64, ge=1)
    """Prompts that are tried: the same ones each time, evenly spaced over the input."""
    samples: int = Field(default=4, ge=1)
    """Responses to each of them, at the step's temperature."""


@with_overrides
class RLParams(Params):
    """A method, how long and on how much to run it, and overrides of its slots."""

    method: str = "grpo"
    """A preset of components/rl/methods. Alone it is the paper's setting; every slot set beside it is yours."""
    steps: int = Field(default=60, ge=1)
    """Rounds of rollout and update; with `phases` their sum, which may be left out."""
    token_budget: int | None = Field(default=None, ge=1)
    """Ends the training after the step in which so many tokens have been drawn, if that is before `steps`: for arms
    that are compared at equal tokens and whose steps differ in what they draw. Learning rates follow `steps`."""
    prompts_per_step: int = Field(default=32, ge=1)
    """Prompts of one step."""
    group_size: int = Field(default=8, ge=1)
    """Responses to each prompt."""
    max_new_tokens: int = Field(default=64, ge=1)
    """Longest response in tokens, its end included; longer ones are cut and counted as truncated."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature. The trained policy is the one at this temperature, so ratios begin at 1."""
    optimizer: RLOptimizerConfig = RLOptimizerConfig()
    """Optimiser and learning-rate schedule; its steps are updates, not rounds."""
    minibatches: int = Field(default=1, ge=1)
    """Updates per pass over a step's batch; whole groups go into each."""
    epochs: int = Field(default=1, ge=1)
    """Passes over a step's batch."""
    micro_batch_tokens: int = Field(default=16384, ge=1)
    """Maximum tokens in one forward pass; affects memory, not the result."""
    phases: tuple[Phase, ...] = ()
    """Parts of the stage's steps with their own settings, in order, and what each carries over; empty: one part."""
    lora: LoraConfig | None = None
    """Train low-rank adapters instead of all weights; the output model has them merged."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Precision of the weights."""
    sampler_correction: SamplerCorrection | None = SamplerCorrection()
    """Truncated importance weights where the sampler's log-probabilities are not the trainer's: with an engine, or in
    bfloat16, and without the advantage operator truncated_importance, which replaces it; null for none."""
    overlong: Overlong = "drop"
    """What becomes of a prompt that does not fit the model's positions with a response of max_new_tokens: left out and
    counted, cut on the left, or refused with its name."""
    labels: Literal["used", "ignored"] = "used"
    """ignored: answers, verifiers and data of the dataset's prompts are taken away before anything reads them, and
    operators that read outcomes or answers are refused; input `heldout` keeps its own."""
    keep_special_tokens: tuple[str, ...] = ()
    """Special tokens of the tokenizer that are text of responses, such as "[THINK]" of a reasoning model. Others are
    left out of what is verified and kept, unless the prompt or its verifier's data names them."""
    start_kl_every: int = Field(default=10, ge=0)
    """Steps between measurements of the divergence from the starting policy; 0 for none."""
    checkpoint_every: int | None = Field(default=None, ge=0)
    """Steps between partial checkpoints, from which a killed stage resumes; 0 for none. Without this and minutes: as
    often as they take less than 2 % of the time."""
    checkpoint_minutes: float | None = Field(default=None, gt=0)
    """Minutes between partial checkpoints, beside those of `checkpoint_every`."""
    keep_optimizer: bool = False
    """Whether output `optimizer` holds the optimiser's averages. A stage that trains the output model goes on with them
    at its input `optimizer`, such as the next round of a repeat; its schedule of learning rates begins anew."""
    save_every: int = Field(default=20, ge=0)
    """Steps between models kept in the checkpoints output, the last step included; 0 for none."""
    record: RecordConfig = RecordConfig()
    """Which responses the rollouts output keeps."""
    heldout: HeldoutConfig = HeldoutConfig()
    """The probe on input `heldout`; without that input there is none."""

    @field_validator("method")
    @classmethod
    def _known_method(cls, value: str) -> str:
        preset_path(value)
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        check_phases(self.phases, given_steps=self.steps if "steps" in self.model_fields_set else None)
        for phase in self.phases or (None,):
            size = phase.group_size if phase and phase.group_size is not None else self.group_size
            check_groups(size, self.slots(phase), f"phase {phase.name}: " if phase else "")
        operators = list(self.operators())
        if self.labels == "ignored":
            check_ignored(operators)
        if self.keep_optimizer and self.lora is not None:
            raise InputError(
                "keep_optimizer: adapters are merged into the output model, and the next stage has new ones"
            )
        return self

    @property
    def num_steps(self) -> int:
        """Return the steps of all phases, or of the stage without any."""
        return sum(phase.steps for phase in self.phases) or self.steps

    def operators(self) -> Iterator[Bound]:
        """Yield the operators of all phases: the method's, with the overrides applied."""
        for phase in self.phases or (None,):
            yield from (bound for _, bound in bind(self.slots(phase)).places())

    def slots(self, phase: Phase | None = None) -> SlotSpecs:
        """Return the method's slots with this stage's overrides applied, then a phase's."""
        overrides = {key: vars(self)[key] for key in step_slots()}
        slots = override(load_preset(self.method).slots, overrides)
        return override(slots, phase.slots) if phase else slots

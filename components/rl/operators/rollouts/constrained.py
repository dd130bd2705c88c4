"""OpenAGI's rollout: responses of a language only, so that no sample is spent on what cannot be executed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext
from components.tasks.answers import ANSWER_OPEN
from components.tasks.domains.worlds.automata import Plans, Trie
from components.tasks.domains.worlds.plans import MAX_STEPS, Type

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector
    from components.tasks.item import Item


class ConstrainedConfig(SlotConfig):
    """The language of responses."""

    needs_processor: ClassVar[bool] = True
    language: Literal["plans", "texts"] = "plans"
    """Plans of source `pipelines` whose types fit and end in the type asked for, or some texts and no others."""
    texts: tuple[str, ...] = ()
    """The texts, such as [true, false]."""
    opening: str = ANSWER_OPEN
    """What every response begins with."""
    max_steps: int = Field(default=4, ge=1, le=MAX_STEPS)
    """Longest plan. `max_new_tokens` has to hold it: a response cut at the limit is no plan."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.language == "texts") != bool(self.texts):
            raise InputError("constrained: `texts` lists the responses of `language: texts`, and of no other")
        if not all(self.texts):
            raise InputError("constrained: a text is empty")
        return self


def constrained(
    prompts: Sequence[Prompt], collector: Collector, context: SlotContext, *, config: ConstrainedConfig
) -> Batch:
    """Draw `group_size` responses to each prompt, renormalised at each token over those that stay in the language.

    `old_logprobs` are the policy's own, so ratios begin at 1; `behaviour_logprobs` are those of the constrained draw.
    Source: OpenAGI (Ge et al. 2023), section on constrained generation; sampled, where the paper has beams.
    """
    from components.modeling.generation.constraint import Constraint

    policy = collector.policy
    assert policy.tokenizer is not None
    pieces = collector.pieces(range(policy.vocab_size))
    automata = [_language(prompt.item, config) for prompt in prompts]
    drawn = collector.draw(prompts, context.settings.group_size, processor=Constraint(automata, pieces, policy.eos_ids))
    return collector.rescore(drawn)


def _language(item: Item, config: ConstrainedConfig) -> Plans | Trie:
    if config.language == "texts":
        return Trie(tuple(f"{config.opening}{text}" for text in config.texts))
    wanted: Any = item.data.get("wanted")
    if wanted not in get_args(Type):
        raise InputError(f"rollout constrained: item {item.id} is not of source pipelines (wanted: {wanted!r:.80})")
    return Plans(wanted, config.max_steps, config.opening)

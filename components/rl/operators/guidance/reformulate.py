"""EGSR: groups without a right response get answers that the policy wrote with an expert's solution in the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext
from components.tasks.seeds import derive_rng
from components.tasks.slots import DEMONSTRATOR
from components.tasks.sources.guided import check_template, guided_prompt

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector


class ReformulateConfig(SlotConfig):
    """Whose solutions, how they are shown, and how many answers are drawn."""

    expert: Annotated[OperatorSpec, DEMONSTRATOR] = OperatorSpec(name="gold")
    """The demonstrator that writes the expert's solution."""
    template: str = "{prompt}\nSolution: {solution}\nRewrite it in your own words."
    """The guided prompt."""
    num_samples: int = Field(default=8, ge=1)
    """Responses to each guided prompt."""
    replace_share: float = Field(default=0.5, gt=0, lt=1)
    """Maximum share of a failed group that right answers replace; a group of right answers only has no advantage."""
    ratio: Literal["original", "guided"] = "original"
    """Old log-probabilities of the new answers: given the original prompt, as if they were answers to it, or given the
    guided prompt, under which they were drawn (exact importance)."""
    form: Literal["reformulated", "verbatim"] = "reformulated"
    """verbatim puts the expert's own text into the group, for comparison; nothing is sampled then."""

    @field_validator("expert")
    @classmethod
    def _known(cls, value: OperatorSpec) -> OperatorSpec:
        value.resolve()
        return value

    @field_validator("template")
    @classmethod
    def _complete(cls, value: str) -> str:
        return check_template(value)


def reformulate(batch: Batch, collector: Collector, context: SlotContext, *, config: ReformulateConfig) -> Batch:
    """Replace part of every group without a right response with right answers; leave other groups unchanged.

    New rows are marked `external`, so that no statistic counts them as the policy's own. Source: Zhang et al. 2025,
    Learning Like Humans (arXiv:2505.08364), expert-guided self-reformulation; share and ratio are reconstructed.
    """
    from components.rl.batch.batch import RIGHT
    from components.rl.batch.joining import regroup

    batch.require_single("guidance reformulate")
    solved_s = batch.group_sum((batch.outcomes == RIGHT).long()) > 0
    failed = batch.group[~solved_s].unique_consecutive().tolist()
    if not failed:
        return batch
    prompts = [batch.prompts[group] for group in failed]
    solutions = [_solution(prompt, context, config) for prompt in prompts]
    if config.form == "verbatim":
        answers = collector.score(collector.responses(prompts, solutions))
    else:
        answers = collector.score(_reformulated(prompts, solutions, collector, config))
    answers = answers.select(answers.outcomes == RIGHT)
    kept_rows, new_rows = _places(batch, answers, config)
    context.metrics["replaced_share"] = len(new_rows) / batch.num_responses
    if not len(new_rows):
        return batch
    new = answers.select(new_rows)
    context.metrics["replaced_logprob"] = float(collector.rescore(new).old_logprobs.mean())
    return regroup([batch.select(kept_rows), new])


def _solution(prompt: Prompt, context: SlotContext, config: ReformulateConfig) -> str:
    expert = config.expert.resolve()
    text = expert(prompt.item, derive_rng(context.seed, "reformulate", context.step, prompt.item.id))
    if not isinstance(text, str):
        raise InputError(
            f"guidance reformulate: expert {config.expert.name} wrote the turns of a conversation for item "
            f"{prompt.item.id}, where one text is needed; use a demonstrator that writes one text"
        )
    return text


def _reformulated(
    prompts: Sequence[Prompt], solutions: Sequence[str], collector: Collector, config: ReformulateConfig
) -> Batch:
    """Draw answers to the guided prompts and return them as answers to the original ones."""
    from components.modeling.text.prompting import encode_prompts
    from components.rl.batch.batch import FOREIGN, Prompt

    tokenizer = collector.policy.tokenizer
    assert tokenizer is not None
    texts = [
        guided_prompt(config.template, prompt.item.prompt, solution)
        for prompt, solution in zip(prompts, solutions, strict=True)
    ]
    guided = [
        Prompt(prompt.item, tuple(tokens))
        for prompt, tokens in zip(prompts, encode_prompts(tokenizer, texts, collector.policy.ends), strict=True)
    ]
    drawn = collector.draw(guided, config.num_samples)
    answers = replace(drawn.by(FOREIGN), prompts=tuple(prompts))
    return answers if config.ratio == "guided" else collector.rescore(answers)


def _places(batch: Batch, answers: Batch, config: ReformulateConfig) -> tuple[Tensor, Tensor]:
    """Return which rows of the batch stay [S] bool, and the rows of the answers that replace the others [S']."""
    import torch

    room = {
        prompt.item.id: int(config.replace_share * size)
        for prompt, size in zip(batch.prompts, torch.bincount(batch.group).tolist(), strict=True)
    }
    taken: dict[str, list[int]] = {}
    for row, group in enumerate(answers.group.tolist()):
        name = answers.prompts[group].item.id
        if len(taken.setdefault(name, [])) < room[name]:
            taken[name].append(row)
    left = {name: len(rows) for name, rows in taken.items()}
    stays = [True] * batch.num_responses
    for row, group in reversed(list(enumerate(batch.group.tolist()))):
        name = batch.prompts[group].item.id
        if left.get(name, 0):
            stays[row], left[name] = False, left[name] - 1
    return torch.tensor(stays), torch.tensor([row for rows in taken.values() for row in rows], dtype=torch.long)

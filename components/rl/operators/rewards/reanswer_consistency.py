"""Whether a thought leads to the same option when the options are in another order (ACRE)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from components.contract.errors import InputError
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext
from components.tasks.blocks import TagName
from components.tasks.item import Item
from components.tasks.options import LETTERS, OPTIONS, reordered
from components.tasks.seeds import derive_rng
from components.tasks.verifiers.choice import chosen_option

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class ReanswerConsistencyConfig(RewardConfig):
    """Values of the cases, and how the second answer is drawn."""

    reads: ClassVar[frozenset[str]] = frozenset({"outcomes"})
    both_right: float = 1.0
    """Right, and the same option again."""
    first_right: float = 0.5
    """Right, but another option, or none, behind the same thought."""
    wrong: float = 0.0
    """A wrong first answer."""
    tag: TagName = "answer"
    """Tag of the answer; the thought is what precedes the last one."""
    max_new_tokens: int = Field(default=4, ge=1)
    """Tokens of the second answer at most."""


def reanswer_consistency(batch: Batch, context: SlotContext, *, config: ReanswerConsistencyConfig) -> Tensor:
    """Return [S]: `both_right`, `first_right` or `wrong`, by the outcome and by the option chosen again.

    Each response's options are put into another random order, its thought stands as written, and the policy gives the
    answer once more, greedily; the option is what is compared, not its letter. Metric: `reanswer_consistency`, the
    share of responses that choose one option twice.

    Source: Wang et al. 2025, Answer-Consistent Chain-of-thought RL (ACRE): order, thought and both answers.
    Reconstructed: the values. Letters that the thought itself names stay as they are.
    """
    import torch

    from components.rl.batch.batch import RIGHT
    from components.rl.step.thoughts import thoughts_of

    batch.require_single("reward reanswer_consistency")
    collector = context.collector
    groups = batch.group.tolist()
    thoughts = thoughts_of(batch, collector, config.tag)
    contexts: list[list[int]] = []
    orders: list[tuple[int, list[str]]] = []
    for row, thought in enumerate(thoughts):
        if thought is None:
            continue
        item = batch.prompts[groups[row]].item
        options = _options(item)
        order = list(range(len(options)))
        rng = derive_rng(context.seed, "reanswer_consistency", context.step, row)
        while order == sorted(order):
            rng.shuffle(order)
        again = reordered(item, order)
        if again is None:
            raise InputError(f"reward reanswer_consistency: the prompt of {item.id} shows no option behind its letter")
        contexts.append([*collector.encode_prompt(again.prompt), *thought])
        orders.append((row, [options[option] for option in order]))
    answers = [texts[0] for texts in collector.ask(contexts, max_new_tokens=config.max_new_tokens)]
    same = torch.zeros(batch.num_responses, dtype=torch.bool)
    for (row, shuffled), text in zip(orders, answers, strict=True):
        first = chosen_option(batch.texts[row], _options(batch.prompts[groups[row]].item))
        second = chosen_option(f"<{config.tag}>{text}", shuffled)
        same[row] = first is not None and first == second
    if batch.num_responses:
        context.metrics["reanswer_consistency"] = float(same.double().mean())
    right = batch.outcomes == RIGHT
    value = torch.where(same, torch.tensor(config.both_right), torch.tensor(config.first_right))
    return value.where(right, torch.tensor(config.wrong))


def _options(item: Item) -> list[str]:
    options: Any = item.data.get(OPTIONS)
    if isinstance(options, list) and 2 <= len({str(option) for option in options}) == len(options) <= len(LETTERS):
        return [str(option) for option in options]
    raise InputError(f"reward reanswer_consistency: item {item.id} needs data.{OPTIONS}, two or more different ones")

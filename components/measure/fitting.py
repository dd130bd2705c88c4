"""Items that are too long for a model with the response that follows: dropped, cut or refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from components.modeling.text.overlong import Limit, Overlong, Sorted, Teller, sort_overlong
from components.tasks.item import Item

if TYPE_CHECKING:
    from components.modeling.models.policy import Policy
    from components.modeling.text.turns import Script


def sort_items(
    policy: Policy, items: Sequence[Item], max_new_tokens: int, overlong: Overlong, teller: Teller, *, what: str
) -> Sorted:
    """Sort items by whether they fit the model with every turn at its full length; errors as in `sort_overlong`."""
    from components.modeling.text.turns import scripts

    tasks = scripts(policy.tokenizer, [item.task for item in items], policy.ends, names=[item.id for item in items])
    limit = Limit.of_prompt(policy.max_positions, max_new_tokens)
    return sort_overlong(
        [task.num_tokens(max_new_tokens) - max_new_tokens for task in tasks],
        limit,
        overlong,
        teller,
        names=lambda index: f"prompt {items[index].id}",
        what=what,
        cuttable=lambda index: _excess(tasks[index], max_new_tokens, policy.max_positions) < len(tasks[index].opening),
    )


def fitting_items(
    policy: Policy,
    prompts: Mapping[str, Sequence[Item]],
    longest: Callable[[str], int],
    overlong: Overlong,
    teller: Teller,
) -> tuple[dict[str, list[Item]], dict[str, float]]:
    """Return the items that are measured, by domain, and how many are left out or cut; `longest` is max_new_tokens.

    What is cut is cut as it is drawn, so that an item keeps its id and its text.
    """
    fitting: dict[str, list[Item]] = {}
    counts: dict[str, float] = {}
    for domain, items in prompts.items():
        sort = sort_items(policy, items, longest(domain), overlong, teller, what=f"prompts of domain {domain}")
        fitting[domain] = [items[index] for index in sort.kept]
        for name, count in sort.metrics().items():
            counts[name] = counts.get(name, 0.0) + count
    return fitting, counts


def cut_script(script: Script, max_new_tokens: int, max_positions: int) -> Script:
    """Return a script without as many of its first tokens as do not fit the model."""
    excess = _excess(script, max_new_tokens, max_positions)
    return replace(script, opening=script.opening[excess:]) if excess > 0 else script


def _excess(script: Script, max_new_tokens: int, max_positions: int) -> int:
    return script.num_tokens(max_new_tokens) - max_positions

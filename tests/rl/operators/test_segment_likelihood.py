"""RA3's reward against plain passes of the model, one response at a time; its metrics by hand."""

from __future__ import annotations

import string
from typing import Any

import pytest
import torch

from components.contract.errors import InputError
from components.contract.operators import OperatorRefused
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.rl.batch.batch import Batch, Prompt, new_batch
from components.rl.step.collector import Collector
from components.rl.step.ledger import PassRates
from components.rl.step.settings import StepSettings
from components.tasks.item import Item
from tests.rl.build import context, operator

TEXTS = [" ", "<think>ab", "ab</think>", "-", "<think>", "c"]


@pytest.fixture(scope="module")
def policy() -> Policy:
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False))
    made = new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=0)
    with torch.no_grad():
        made.module.embedding.mul_(6)
    return made


def reward(policy: Policy, items: list[Item], texts: list[str] = TEXTS, **config: Any) -> tuple[list[float], Any]:
    collector = Collector(
        policy,
        StepSettings(prompts_per_step=1, group_size=1, max_new_tokens=9, temperature=1.0),
        generator=torch.Generator(),
        ledger=PassRates(),
        reward=lambda batch: batch.rewards,
        max_tokens=64,
    )
    count = len(texts)
    batch: Batch = new_batch(
        [Prompt(item, (5, 6)) for item in items],
        texts * len(items),
        group=torch.arange(len(items)).repeat_interleave(count),
        lengths=torch.ones(count * len(items), dtype=torch.long),
        finished=torch.ones(count * len(items), dtype=torch.bool),
        tokens=torch.zeros(count * len(items), dtype=torch.long),
        old_logprobs=torch.zeros(count * len(items)),
        entropies=torch.zeros(count * len(items)),
    )

    class Both:
        start = trained = policy

    told = context(collector=collector, policies=Both())
    return operator("reward", "segment_likelihood", **config)(batch, told).tolist(), told.metrics


def item(name: str, **data: Any) -> Item:
    return Item(id=name, domain="d", prompt=f"{name}\n?", answer="xy", verifier="exact", data=data)


def plain(policy: Policy, before: str, behind: str, opening: str = "<think>") -> torch.Tensor:
    """Return log-probabilities of `behind`, one token at a time, each by a pass of its own."""
    tokenizer = policy.tokenizer
    assert tokenizer is not None
    tokens, found = tokenizer.encode(before, add_special_tokens=False), []
    for token in tokenizer.encode(behind, add_special_tokens=False):
        packed = Packed.from_sequences([[*tokens, token]], policy.device, masks=[[False] * len(tokens) + [True]])
        found.append(policy.target_logprobs(packed).logprobs[-1])
        tokens.append(token)
    logprobs = torch.stack(found).detach()
    if opening:
        first = plain(policy, before, opening, "")[0]
        logprobs[0] -= torch.log(1 - first.exp())  # given that no rationale opens
    return logprobs


@pytest.mark.parametrize("mean", [False, True])
def test_it_is_the_likelihood_of_what_follows_less_the_cost(policy: Policy, mean: bool) -> None:
    items = [item("p", before="pq", next="r\ns"), item("t")]
    found, _ = reward(policy, items, cost=0.25, mean=mean)
    inserted = ["", "<think>ab\n", "<think>ab\n", "", "", "<think>c\n"]
    expected = []
    for before, behind in (("pq\n", "r\ns"), ("t\n?\n", "xy")):
        for thought in inserted:
            logprobs = plain(policy, before + thought, behind)
            expected.append(float(logprobs.mean() if mean else logprobs.sum()) - 0.25 * bool(thought))
    assert found == pytest.approx(expected, abs=1e-4)


def test_another_wrap_and_the_trained_policy(policy: Policy) -> None:
    settings = {"cost": 0, "wrap": "[{rationale}]", "by": "trained", "keep": "c"}
    found, _ = reward(policy, [item("t")], ["ab", "c"], **settings)
    expected = [float(plain(policy, f"t\n?\n{thought}", "xy", "[").sum()) for thought in ("[ab]", "")]
    assert found == pytest.approx(expected, abs=1e-4)


def test_metrics_say_where_rationales_stand(policy: Policy) -> None:
    _, told = reward(policy, [item("p", change=True), item("q", change=False)], ["-", "ab"])
    assert told["think_share"] == 0.5 and told["think_at_changes"] == 0.5 and told["change_share"] == 0.5
    gains = [
        float(plain(policy, f"{name}\n?\n<think>ab\n", "xy").sum() - plain(policy, f"{name}\n?\n", "xy").sum())
        for name in "pq"
    ]
    assert told["think_gain"] == pytest.approx(sum(gains) / 2, abs=1e-4)
    assert told["think_gain_at_changes"] == pytest.approx(gains[0], abs=1e-4)
    _, told = reward(policy, [item("p", change=True)], [" ", ""])
    assert told == {"think_share": 0.0, "change_share": 1.0}
    assert "change_share" not in reward(policy, [item("p")])[1]


def test_bad_input_is_refused(policy: Policy) -> None:
    with pytest.raises(InputError, match="no text that follows it"):
        reward(policy, [item("p", next="")])
    with pytest.raises(OperatorRefused, match=r"wrap needs \{rationale\} once"):
        reward(policy, [item("p")], wrap="<think>")
    with pytest.raises(OperatorRefused, match="cost"):
        reward(policy, [item("p")], cost=-1)

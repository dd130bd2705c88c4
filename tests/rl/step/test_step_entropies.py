"""Operators that read entropies get those of the step's temperature; for others, and at 1, nothing is scored again."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from components.rl.step.loop import Loop
from components.rl.step.scoring import score_tokens
from tests.rl.build import near
from tests.rl.step.test_loop import folder, loop_of

__all__ = ["folder"]

READERS = ["canon", "forking-tokens-8020", "dhpo"]


def made(folder: Path, method: str, temperature: float) -> Loop:
    """A loop whose policy has larger weights than a new one, so that the temperature shows."""
    loop = loop_of(folder, method=method, temperature=temperature, filters=[], max_new_tokens=4)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in loop.policies.trained.module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return loop


@pytest.mark.parametrize("method", READERS)
@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.4])
def test_entropies_are_those_of_the_temperature(method: str, temperature: float, folder: Path) -> None:
    loop = made(folder, method, temperature)
    collector = loop.collector()
    drawn = loop._gather(collector)
    found = loop._prepare(drawn, collector).entropies
    logits = score_tokens(loop.policies.trained, drawn, temperature=1.0).logits_at(torch.arange(drawn.num_tokens))
    chances = torch.softmax(logits.detach().double() / temperature, -1)
    assert near(found, (-(chances * chances.log()).sum(-1)).tolist(), 1e-5)
    assert (found is drawn.entropies) == (temperature == 1.0)
    assert temperature == 1.0 or not torch.allclose(found, drawn.entropies, atol=1e-2)


def test_a_method_that_reads_none_keeps_those_of_the_draw(folder: Path) -> None:
    loop = made(folder, "dapo", 0.5)
    collector = loop.collector()
    drawn = loop._gather(collector)
    assert loop._prepare(drawn, collector).entropies is drawn.entropies


def test_the_metric_stays_at_temperature_1(folder: Path) -> None:
    rows = [made(folder, method, 0.5).step()["entropy"] for method in ("canon", "dr-grpo")]
    assert rows[0] == rows[1]

"""The LSTM that weighs source tasks, trained by REINFORCE; apart from its declaration, which planning imports.

Shapes: K tasks, H hidden units, N draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from components.sft.weighting import Weighting
from components.tasks.seeds import derive_seed


class Reinforced(Weighting):
    """The policy, with Adam's moments and what it has seen; all of it float32 on the CPU."""

    def __init__(
        self, count: int, seed: int, *, hidden: int, learning_rate: float, draws: int, decay: float, entropy: float
    ) -> None:
        """`count` is K, `draws` N; the others as in the operator's config."""
        self._seed, self._draws, self._decay, self._entropy = seed, draws, decay, entropy
        generator = torch.Generator().manual_seed(derive_seed(seed, "weighting"))
        bound = 1 / math.sqrt(hidden)

        def drawn(*shape: int) -> Tensor:
            return ((torch.rand(*shape, generator=generator) * 2 - 1) * bound).requires_grad_(True)

        self._parameters = {
            "input": drawn(4 * hidden, 2 * count),
            "hidden": drawn(4 * hidden, hidden),
            "input_bias": drawn(4 * hidden),
            "hidden_bias": drawn(4 * hidden),
            "output": torch.zeros(count, hidden, requires_grad=True),  # so that the first weights are equal
            "output_bias": torch.zeros(count, requires_grad=True),
        }
        self._adam = torch.optim.Adam(self._parameters.values(), lr=learning_rate)
        self._memory = {
            "h": torch.zeros(1, hidden),
            "c": torch.zeros(1, hidden),
            "seen": torch.zeros(1, 2 * count),
            "averages": torch.zeros(2),
            "steps": torch.zeros(1, dtype=torch.int64),
        }
        self._logs: Tensor | None = None

    def weights(self) -> list[float]:
        """Return softmax of the LSTM's output [K]; it reads the latest gains, scaled, and the latest weights."""
        own, memory = self._parameters, self._memory
        h, c = torch.lstm_cell(
            memory["seen"],
            [memory["h"], memory["c"]],
            own["input"],
            own["hidden"],
            own["input_bias"],
            own["hidden_bias"],
        )
        self._logs = torch.log_softmax(own["output"] @ h[0] + own["output_bias"], -1)
        memory["h"], memory["c"] = h.detach(), c.detach()  # a gradient goes through one step
        return self._logs.exp().tolist()

    def learn(self, gains: Sequence[float]) -> None:
        """Make one step of REINFORCE: the gradient of mean (r - b) log w over N draws of a task, and of the entropy.

        r is a task's gain divided by the root of the moving mean of their squares, b the moving average of drawn r.
        """
        assert self._logs is not None, "weights come first"
        memory, first = self._memory, not self._memory["steps"].item()
        found, decay = torch.tensor(gains), self._decay
        baseline, square = memory["averages"]
        square = _moved(square, (found**2).mean(), decay, first)
        scaled = found / (square.sqrt() + 1e-8)
        generator = torch.Generator().manual_seed(derive_seed(self._seed, "draws", int(memory["steps"])))
        shares = self._logs.detach().exp()
        chosen = torch.multinomial(shares, self._draws, replacement=True, generator=generator)
        rewards = scaled[chosen]
        baseline = (shares * scaled).sum() if first else baseline
        self._adam.zero_grad()
        loss = reinforce(self._logs, chosen, rewards - baseline)
        loss = loss + self._entropy * (self._logs.exp() * self._logs).sum()
        loss.backward()
        self._adam.step()
        memory["averages"] = torch.stack([_moved(baseline, rewards.mean(), decay, False), square])
        memory["seen"] = torch.cat([scaled, shares]).unsqueeze(0)
        memory["steps"] = memory["steps"] + 1
        self._logs = None

    def state(self) -> dict[str, Tensor]:
        """Return weights, Adam's moments and the memory."""
        found = {**{f"policy.{name}": p for name, p in self._parameters.items()}, **self._memory}
        for name, parameter in self._parameters.items():
            found |= {f"adam.{name}.{kind}": value for kind, value in self._adam.state.get(parameter, {}).items()}
        return {name: tensor.detach().clone() for name, tensor in found.items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(state[f"policy.{name}"])
                begins = f"adam.{name}."
                kept = {key.removeprefix(begins): state[key].clone() for key in state if key.startswith(begins)}
                self._adam.state[parameter] = kept
        self._memory = {name: state[name].clone() for name in self._memory}


def reinforce(logs: Tensor, chosen: Tensor, advantages: Tensor) -> Tensor:
    """Return REINFORCE's loss: minus the mean of advantages [N] times the `logs` [K] of `chosen` [N]."""
    return -(advantages * logs[chosen]).mean()


def _moved(before: Tensor, now: Tensor, decay: float, first: bool) -> Tensor:
    return now if first else decay * before + (1 - decay) * now

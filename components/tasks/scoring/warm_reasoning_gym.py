"""Warms reasoning-gym up inside the sandbox: sympy prepares much at the first use of each of its parts."""

from __future__ import annotations

from reasoning_gym.factory import create_dataset

TASKS = ("countdown", "puzzle24", "polynomial_multiplication", "simple_integration", "intermediate_integration")

for _task in TASKS:
    _dataset = create_dataset(_task, seed=0, size=4)
    for _index in range(len(_dataset)):
        _dataset.score_answer(_dataset[_index]["answer"], _dataset[_index])

"""ALP-GMM and AGAIN: mixtures, learning progress, the task space and curricula of earlier learners."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from components.contract.errors import InputError
from components.rl.batch.batch import Prompt
from components.rl.curricula.earlier_learners import Learner, choose_expert
from components.rl.curricula.gaussian_mixture import Mixture, best_mixture, fit_mixture
from components.rl.curricula.learning_progress import Try, absolute_progress
from components.rl.curricula.task_space import task_space
from components.rl.step.ledger import PassRates
from tests.rl.build import context, near, operator, prompt


def pool_of(terms: Sequence[int], digits: Sequence[int] = (1,)) -> list[Prompt]:
    data = [{"metadata": {"num_terms": t, "num_digits": d}} for t in terms for d in digits]
    made = [prompt(index) for index in range(len(data))]
    return [replace(p, item=p.item.model_copy(update={"data": d})) for p, d in zip(made, data, strict=True)]


class KnownRates:
    """Stands for a collector whose probes have a known result."""

    def __init__(self, rate: Callable[[Prompt], float], ledger: PassRates) -> None:
        self.rate, self.ledger = rate, ledger

    def probe(self, prompts: Sequence[Prompt], num_samples: int) -> Tensor:
        for one in prompts:
            right = round(self.rate(one) * num_samples)
            self.ledger.add(one.item.id, one.item.domain, right=right, wrong=num_samples - right)
        return torch.tensor([round(self.rate(one) * num_samples) / num_samples for one in prompts])


# mixtures


def clusters(count: int = 60) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(3 * count, 2, generator=generator, dtype=torch.float64) * 0.05
    return noise + torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, 1.0]], dtype=torch.float64).repeat_interleave(count, 0)


def test_densities_equal_the_formula() -> None:
    mixture = fit_mixture(clusters(20), 2, random.Random(0))
    point = [0.3, 0.4]
    joint = mixture.log_joint(torch.tensor([point], dtype=torch.float64))[0]
    for k in range(2):
        (a, b), (_, d) = mixture.covariances[k].tolist()
        x, y = (p - m for p, m in zip(point, mixture.means[k].tolist(), strict=True))
        determinant = a * d - b * b
        square = (d * x * x - 2 * b * x * y + a * y * y) / determinant
        expected = math.log(mixture.weights[k]) - math.log(2 * math.pi) - 0.5 * math.log(determinant) - square / 2
        assert float(joint[k]) == pytest.approx(expected)
    assert mixture.num_parameters == 2 * (1 + 2 + 3) - 1


def test_the_fit_agrees_with_scikit_learn() -> None:
    sklearn = pytest.importorskip("sklearn.mixture")
    points = clusters()
    for number in (1, 3):
        theirs = sklearn.GaussianMixture(number, random_state=0, n_init=5).fit(points.numpy())
        mine = fit_mixture(points, number, random.Random(1))
        assert mine.aic(points) == pytest.approx(theirs.aic(points.numpy()), abs=0.5)
        order, theirs_order = mine.means[:, 0].argsort(), theirs.means_[:, 0].argsort()
        assert torch.allclose(mine.means[order], torch.tensor(theirs.means_[theirs_order]), atol=1e-3)


def test_the_lowest_aic_wins() -> None:
    points = clusters()
    best = best_mixture(points, range(2, 7), random.Random(0))
    assert len(best.weights) > 2
    assert all(best.aic(points) <= fit_mixture(points, number, random.Random(0)).aic(points) for number in (2, 3))


def test_draws_come_from_their_component() -> None:
    mixture = fit_mixture(clusters(), 3, random.Random(0))
    rng, component = random.Random(0), int(mixture.means[:, 1].argmax())
    drawn = torch.tensor([mixture.draw(component, rng) for _ in range(500)])
    assert near(drawn.mean(0), [0.5, 1.0], 0.02) and near(drawn.std(0), [0.05, 0.05], 0.01)
    again = Mixture.from_json(mixture.to_json())
    assert torch.equal(again.covariances, mixture.covariances)


@given(st.integers(1, 4), st.integers(2, 6))
def test_equal_points_are_no_failure(distinct: int, components: int) -> None:
    points = torch.arange(distinct, dtype=torch.float64).repeat(5)[:, None].repeat(1, 2)
    mixture = best_mixture(points, range(1, components + 1), random.Random(0))
    assert math.isfinite(mixture.aic(points)) and len(mixture.weights) <= distinct


# progress


def tries(*pairs: tuple[float, float]) -> list[Try]:
    return [Try(step, f"p{step}", (place,), reward) for step, (place, reward) in enumerate(pairs)]


def test_progress_by_hand() -> None:
    learned = tries((0.0, 0.0), (0.1, 0.0), (0.2, 0.0), (0.3, 0.5), (0.9, 0.5), (0.9, 0.25), (0.9, 1.0), (0.0, 0.3))
    # the seventh is compared with the latest of two at its place, the eighth with the first
    assert absolute_progress(learned) == pytest.approx([0, 0, 0, 0, 0, 0, 0.75, 0.3])
    assert absolute_progress(learned, since=7) == pytest.approx([0.3])


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=20))
def test_progress_equals_brute_force(pairs: list[tuple[float, float]]) -> None:
    learned = tries(*pairs)
    for index, found in enumerate(absolute_progress(learned)):
        place, reward = pairs[index]
        gaps = [abs(place - earlier) for earlier, _ in pairs[:index]]
        at_nearest = [r for gap, (_, r) in zip(gaps, pairs[:index], strict=True) if gap == min(gaps)]
        assert found == (abs(reward - at_nearest[-1]) if index >= 6 else 0.0)


# the space


def test_points_fill_the_cells_of_a_grid_and_stay_the_same() -> None:
    pool = pool_of(range(2, 6), range(1, 3))
    space = task_space(pool, ["metadata.num_terms", "metadata.num_digits"])
    for one, point in zip(pool, space.points, strict=True):
        metadata = one.item.data["metadata"]
        assert [int(point[0] * 4), int(point[1] * 2)] == [metadata["num_terms"] - 2, metadata["num_digits"] - 1]
    assert task_space(pool[::-1], ["metadata.num_terms", "metadata.num_digits"]).point_of == space.point_of
    for index, point in enumerate(space.points):
        assert space.nearest(point) == index
    outside = space.nearest([9.0, -9.0])
    assert math.dist(space.points[outside], (1.0, 0.0)) == min(math.dist(p, (1.0, 0.0)) for p in space.points)
    marks = space.landmarks(4)
    assert len(set(marks)) == 4 and sorted(space.landmarks(99)) == list(range(8))
    with pytest.raises(InputError, match="'metadata' of prompt p0 is no number"):
        task_space(pool, ["metadata"])


# ALP-GMM


def run_learner(
    name: str,
    pool: Sequence[Prompt],
    rewards: Callable[[Prompt, int], float],
    *,
    steps: int,
    ledger: PassRates,
    count: int = 10,
    **config: Any,
) -> tuple[list[list[int]], dict[str, Any]]:
    """Let a sampler teach a learner whose pass rates are known; return what it drew at each step, and its memory."""
    sampler, memory, drawn = operator("sampler", name, **config), {}, []
    for step in range(steps):
        ledger.step = step
        known = KnownRates(lambda one, step=step: rewards(one, step), ledger)
        now = context(step, steps, ledger=ledger, memory=memory, pool=pool, collector=known)
        drawn.append(sampler(pool, count, now))
        for index in drawn[-1]:
            item, right = pool[index].item, round(8 * rewards(pool[index], step))
            ledger.add(item.id, item.domain, right=right, wrong=8 - right)
            ledger.set_advantage(item.id, item.domain, 0.1)
    return drawn, memory


def terms(one: Prompt) -> int:
    return int(one.item.data["metadata"]["num_terms"])


def changing(one: Prompt, step: int) -> float:
    """Sums of 6 and 7 terms change from step to step, the others never."""
    return float(step % 2) if terms(one) in (6, 7) else 0.0


def test_alp_gmm_goes_where_rewards_change() -> None:
    pool = pool_of([t for t in range(2, 10) for _ in range(20)])
    drawn, memory = run_learner(
        "alp_gmm", pool, changing, steps=30, ledger=PassRates(), fit_every=50, explore=0.1, max_components=5
    )
    early = [terms(pool[index]) for step in drawn[:5] for index in step]
    late = [terms(pool[index]) for step in drawn[10:] for index in step]
    share = sum(t in (6, 7) for t in late) / len(late)
    assert sum(t in (6, 7) for t in early) / len(early) < 0.45 and share > 0.6
    assert memory["fitted"] % 50 == 0 and "tested" not in memory


# AGAIN


def test_the_best_of_the_nearest_is_chosen() -> None:
    learners = [Learner("a", [], [0.0, 0.0], 0.2), Learner("b", [], [0.1, 0.0], 0.7), Learner("c", [], [1.0, 1.0], 0.9)]
    assert choose_expert(learners, [0.0, 0.1], 2).policy == "b"
    assert choose_expert(learners, [0.0, 0.1], 1).policy == "a"
    assert choose_expert(learners, [0.0, 0.1], 5).policy == "c"


SETTINGS = {"fit_every": 50, "max_components": 4, "test_tasks": 6, "test_samples": 4}


def test_again_follows_the_tested_earlier_learner() -> None:
    pool = pool_of([t for t in range(2, 10) for _ in range(20)])
    earlier = PassRates(policy="earlier")
    run_learner("alp_gmm", pool, changing, steps=30, ledger=earlier, test_after=50, **SETTINGS)
    ledger = PassRates(earlier.rows(), earlier.visit_rows(), policy="later")
    drawn, memory = run_learner(
        "again", pool, lambda *_: 0.0, steps=20, ledger=ledger, test_after=20, explore=0.0, window=5, **SETTINGS
    )
    assert memory["expert"] == "earlier" and memory["lessons"]
    assert all(mean[-1] > 0.2 for lesson in memory["lessons"] for mean in lesson["means"])
    # This learner never improves, so its own mixtures have no progress: it stays with the expert's first lesson.
    assert memory["lesson"] == 0
    inherited = [terms(pool[index]) for step in drawn[4:] for index in step]
    assert sum(t in (6, 7) for t in inherited) / len(inherited) > 0.6


def test_again_takes_the_next_lesson_when_it_does_as_well() -> None:
    pool = pool_of([t for t in range(2, 10) for _ in range(20)])
    earlier = PassRates(policy="earlier")
    run_learner("alp_gmm", pool, changing, steps=40, ledger=earlier, test_after=50, **SETTINGS)
    ledger = PassRates(earlier.rows(), earlier.visit_rows(), policy="later")
    _, memory = run_learner(
        "again", pool, lambda *_: 1.0, steps=20, ledger=ledger, test_after=20, explore=0.0, window=5, **SETTINGS
    )
    assert len(memory["lessons"]) > 1 and memory["lesson"] == len(memory["lessons"]) - 1
    assert len(memory["rewards"]) <= 5


def test_without_earlier_learners_again_is_alp_gmm() -> None:
    pool = pool_of([t for t in range(2, 10) for _ in range(20)])
    _, memory = run_learner("again", pool, changing, steps=8, ledger=PassRates(), test_after=20, **SETTINGS)
    assert memory["lessons"] == [] and "expert" not in memory and memory["tested"] == 7

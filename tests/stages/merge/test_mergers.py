"""Every merger by hand, against brute force written from the papers, and by properties."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from components.merge import stack as stack_module
from components.merge.quantiles import kth_largest
from tests.stages.merge.folders import merged, tensors

SHAPES: dict[str, tuple[int, ...]] = {"layers.0.up": (7, 5), "layers.1.up": (5, 7), "norm": (6,), "scale": ()}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tensor is merged in several blocks."""
    monkeypatch.setattr(stack_module, "BLOCK", 11)


def vector(*numbers: float) -> dict[str, Tensor]:
    return {"w": torch.tensor(numbers)}


def near(found: Tensor, *numbers: float) -> bool:
    return torch.allclose(found, torch.tensor(numbers), atol=1e-6)


def test_linear_by_hand(tmp_path: Path) -> None:
    models = [vector(1.0, 2.0), vector(3.0, -2.0)]
    assert near(merged(tmp_path / "a", models, None, "linear")["w"], 2.0, 0.0)
    weighted = {"name": "linear", "weights": [3.0, 1.0]}
    assert near(merged(tmp_path / "b", models, None, weighted)["w"], 1.5, 1.0)
    assert near(merged(tmp_path / "c", models, None, {**weighted, "normalise": False})["w"], 6.0, 4.0)


def test_slerp_by_hand(tmp_path: Path) -> None:
    """Of right angles the half is (1, 1) / sqrt 2; a third of the way is at 30 degrees; parallel ones go straight."""
    models = [vector(1.0, 0.0), vector(0.0, 1.0)]
    half = math.sqrt(0.5)
    assert near(merged(tmp_path / "a", models, None, "slerp")["w"], half, half)
    third = {"name": "slerp", "t": 1 / 3}
    assert near(merged(tmp_path / "b", models, None, third)["w"], math.cos(math.pi / 6), 0.5)
    assert near(merged(tmp_path / "c", [vector(1.0, 1.0), vector(3.0, 3.0)], None, "slerp")["w"], 2.0, 2.0)
    assert near(merged(tmp_path / "d", [vector(0.0, 0.0), vector(2.0, 4.0)], None, "slerp")["w"], 1.0, 2.0)
    closest = {"name": "slerp", "parallel": math.nextafter(1.0, 0.0)}
    assert near(merged(tmp_path / "e", [vector(1.0, 0.0)] * 2, None, closest)["w"], 1.0, 0.0)


def test_task_arithmetic_by_hand(tmp_path: Path) -> None:
    """(1, 1) with the task vectors (2, 0) and (0, 4): half of both, then the second taken away."""
    models, base = [vector(3.0, 1.0), vector(1.0, 5.0)], vector(1.0, 1.0)
    halved = {"name": "task_arithmetic", "scale": 0.5}
    assert near(merged(tmp_path / "a", models, base, halved)["w"], 2.0, 3.0)
    negated = {"name": "task_arithmetic", "weights": [1.0, -1.0]}
    assert near(merged(tmp_path / "b", models, base, negated)["w"], 3.0, -3.0)


def test_ties_by_hand(tmp_path: Path) -> None:
    """The two largest of each stay; a wins the first, alone at the second, both agree at the third."""
    a, b = vector(5.0, 0.5, 2.0, 0.1), vector(-1.0, 3.0, 4.0, 0.2)
    zero = vector(0.0, 0.0, 0.0, 0.0)
    found = merged(tmp_path, [a, b], zero, {"name": "ties", "keep": 0.5})["w"]
    assert near(found, 5.0, 3.0, 3.0, 0.0)


def test_ties_elects_by_mass(tmp_path: Path) -> None:
    """Two small ones against a large one: the large one's sign, and only it is averaged."""
    models = [vector(4.0), vector(-1.0), vector(-2.0)]
    assert near(merged(tmp_path, models, vector(0.0), {"name": "ties", "keep": 1.0})["w"], 4.0)


def test_dare_by_hand(tmp_path: Path) -> None:
    """What is kept is divided by 1 - p, and the rest is the base's; a quarter is kept."""
    base, model = {"w": torch.full((400,), 2.0)}, {"w": torch.full((400,), 3.0)}
    found = merged(tmp_path, [model], base, {"name": "dare", "drop": 0.75})["w"]
    assert set(found.tolist()) == {2.0, 6.0}
    assert 60 <= int((found == 6.0).sum()) <= 140


def test_low_rank_by_hand(tmp_path: Path) -> None:
    """diag(3, 1) of rank 1 is diag(3, 0); a vector is added whole."""
    base = {"w": torch.zeros(2, 2), "v": torch.zeros(2)}
    model = {"w": torch.diag(torch.tensor([3.0, 1.0])), "v": torch.tensor([1.0, 2.0])}
    found = merged(tmp_path, [model], base, {"name": "low_rank", "rank": 1})
    assert torch.allclose(found["w"], torch.diag(torch.tensor([3.0, 0.0])), atol=1e-6)
    assert near(found["v"], 1.0, 2.0)


def ties_by_paper(
    deltas: list[dict[str, Tensor]], keep: float, weights: list[float], *, by_tensor: bool
) -> dict[str, Tensor]:
    """Algorithm 1, number by number, over flat task vectors."""
    names = list(deltas[0])
    groups = [[name] for name in names] if by_tensor else [names]
    merged_vectors = {}
    for group in groups:
        flat = [[float(x) for name in group for x in delta[name].flatten()] for delta in deltas]
        trimmed = []
        for vector_, weight in zip(flat, weights, strict=True):
            k = max(1, round(keep * len(vector_)))
            bound = sorted(map(abs, vector_), reverse=True)[k - 1]
            trimmed.append([weight * x if abs(x) >= bound else 0.0 for x in vector_])
        result = []
        for entries in zip(*trimmed, strict=True):
            sign = math.copysign(1, sum(entries)) if sum(entries) else 0
            agreeing = [(x, w) for x, w in zip(entries, weights, strict=True) if x * sign > 0]
            result.append(sum(x for x, _ in agreeing) / sum(abs(w) for _, w in agreeing) if agreeing else 0.0)
        at = 0
        for name in group:
            count = deltas[0][name].numel()
            merged_vectors[name] = torch.tensor(result[at : at + count]).view(deltas[0][name].shape)
            at += count
    return merged_vectors


@pytest.mark.parametrize("among", ["model", "tensor"])
@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0], [0.5, 2.0, 1.0]])
def test_ties_is_the_papers_algorithm(tmp_path: Path, among: str, weights: list[float]) -> None:
    base = tensors(0, **SHAPES)
    models = [{name: base[name] + one for name, one in tensors(seed, **SHAPES).items()} for seed in (1, 2, 3)]
    merger = {"name": "ties", "keep": 0.4, "scale": 0.7, "weights": weights, "among": among}
    found = merged(tmp_path, models, base, merger)
    deltas = [{name: model[name] - base[name] for name in base} for model in models]
    expected = ties_by_paper(deltas, 0.4, weights, by_tensor=among == "tensor")
    for name in base:
        torch.testing.assert_close(found[name], base[name] + 0.7 * expected[name], rtol=1e-5, atol=1e-6)


def test_low_rank_is_the_truncated_svd(tmp_path: Path) -> None:
    base = tensors(0, **SHAPES)
    models = [tensors(seed, **SHAPES) for seed in (1, 2)]
    found = merged(tmp_path, models, base, {"name": "low_rank", "rank": 2, "scale": 0.5})
    for name in ("layers.0.up", "layers.1.up"):
        expected = base[name].clone()
        for model in models:
            u, s, v = torch.linalg.svd((model[name] - base[name]).double(), full_matrices=False)
            expected += 0.5 * (u[:, :2] * s[:2] @ v[:2]).float()
        torch.testing.assert_close(found[name], expected, rtol=1e-4, atol=1e-5)


def test_dare_is_right_on_average_and_with_the_same_seed_the_same(tmp_path: Path) -> None:
    base = {"w": torch.zeros(20_000)}
    model = {"w": torch.ones(20_000)}
    merger = {"name": "dare", "drop": 0.9}
    first = merged(tmp_path / "a", [model], base, merger)["w"]
    assert abs(float(first.mean()) - 1.0) < 5 * math.sqrt(9 / 20_000)
    assert torch.equal(first, merged(tmp_path / "b", [model], base, merger)["w"])
    assert not torch.equal(first, merged(tmp_path / "c", [model], base, merger, seed=1)["w"])
    assert not torch.equal(first, merged(tmp_path / "d", [model], base, {**merger, "seed": 1})["w"])


def test_dare_draws_for_each_model_and_elects_signs(tmp_path: Path) -> None:
    base, one, other = ({"w": torch.full((5_000,), x)} for x in (0.0, 1.0, -0.5))
    kept = merged(tmp_path / "a", [one, other], base, {"name": "dare", "drop": 0.5})["w"]
    assert set(kept.tolist()) == {0.0, 2.0, -1.0, 1.0}  # each alone, both, none
    elected = merged(tmp_path / "b", [one, other], base, {"name": "dare", "drop": 0.5, "elect_signs": True})["w"]
    assert set(elected.tolist()) == {0.0, 2.0, -1.0}  # where both are kept the larger one wins


EQUALS: list[tuple[Any, bool]] = [
    ({"name": "linear", "weights": [0.2, 0.5, 0.3]}, False),
    ({"name": "task_arithmetic", "weights": [0.2, 0.5, 0.3]}, True),
    ({"name": "ties", "keep": 1.0}, True),
    ({"name": "dare", "drop": 0.0, "weights": [0.2, 0.5, 0.3]}, True),
    ({"name": "low_rank", "rank": 100, "weights": [0.2, 0.5, 0.3]}, True),
]


@given(st.integers(0, 10_000), st.sampled_from(EQUALS))
@settings(max_examples=25, deadline=None)
def test_equal_models_with_weights_that_sum_to_one_give_the_model(seed: int, chosen: tuple[Any, bool]) -> None:
    merger, has_base = chosen
    model, base = tensors(seed, **SHAPES), tensors(seed + 1, **SHAPES)
    with TemporaryDirectory() as folder:
        found = merged(Path(folder), [model] * 3, base if has_base else None, merger)
    for name in model:
        torch.testing.assert_close(found[name], model[name], rtol=1e-5, atol=1e-5)


@given(st.integers(0, 10_000), st.permutations([0, 1, 2]), st.sampled_from(["linear", "task_arithmetic", "ties"]))
@settings(max_examples=20, deadline=None)
def test_the_order_of_models_does_not_matter(seed: int, order: list[int], name: str) -> None:
    models, base = [tensors(seed + number, **SHAPES) for number in range(3)], tensors(seed + 9, **SHAPES)
    weights = [0.2, 0.5, 0.3]
    own = None if name == "linear" else base
    with TemporaryDirectory() as folder:
        first = merged(Path(folder) / "a", models, own, {"name": name, "weights": weights})
        second = merged(
            Path(folder) / "b",
            [models[place] for place in order],
            own,
            {"name": name, "weights": [weights[place] for place in order]},
        )
    for key in first:
        torch.testing.assert_close(first[key], second[key], rtol=1e-5, atol=1e-5)


@given(st.integers(0, 10_000), st.floats(0.01, 0.99))
@settings(max_examples=15, deadline=None)
def test_the_ends_of_slerp_are_the_models_and_the_way_keeps_the_norm(seed: int, t: float) -> None:
    first, second = ({"w": one / one.norm()} for one in tensors(seed, a=(6, 4), b=(6, 4)).values())
    with TemporaryDirectory() as folder:
        ends = [merged(Path(folder) / str(end), [first, second], None, {"name": "slerp", "t": end}) for end in (0, 1)]
        between = merged(Path(folder) / "t", [first, second], None, {"name": "slerp", "t": t})["w"]
    torch.testing.assert_close(ends[0]["w"], first["w"], rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(ends[1]["w"], second["w"], rtol=1e-6, atol=1e-7)
    assert abs(float(between.norm()) - 1.0) < 1e-5


@given(st.lists(st.floats(0, 2.0**100, width=32), min_size=1, max_size=60), st.data())
@settings(max_examples=100, deadline=None)
def test_the_kth_largest_is_that_of_sorting(numbers: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(numbers)))
    given_ = torch.tensor(numbers)
    parts = given_.split(7)
    assert kth_largest(lambda: parts, k) == float(given_.sort(descending=True).values[k - 1])


def test_weights_by_pattern_hold_where_it_fits(tmp_path: Path) -> None:
    models = [{name: torch.full(shape, x) for name, shape in SHAPES.items()} for x in (0.0, 1.0)]
    merger = {"name": "linear", "weights": [0.5, 0.5], "by_tensor": {"layers.0.*": [1, 3], "layers.*": [1, 0]}}
    found = merged(tmp_path / "a", models, None, merger)
    values = {name: float(one.flatten()[0]) for name, one in found.items()}
    assert values == {"layers.0.up": 0.75, "layers.1.up": 0.0, "norm": 0.5, "scale": 0.5}
    ends = merged(tmp_path / "b", models, None, {"name": "slerp", "t": 0.5, "by_tensor": {"layers.0.*": 1.0}})
    assert float(ends["layers.0.up"][0, 0]) == 1.0


def test_blocks_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of blocks, the weights are the same, of every merger that draws nothing."""
    base, models = tensors(0, **SHAPES), [tensors(seed, **SHAPES) for seed in (1, 2)]
    for name in ("linear", "slerp", "task_arithmetic", "ties", "low_rank"):
        merger = {"name": name, "rank": 2} if name == "low_rank" else name
        small = merged(tmp_path / f"{name}-small", models, base, merger)
        monkeypatch.setattr(stack_module, "BLOCK", 1 << 22)
        large = merged(tmp_path / f"{name}-large", models, base, merger)
        monkeypatch.setattr(stack_module, "BLOCK", 11)
        for key in small:
            torch.testing.assert_close(small[key], large[key], rtol=1e-5, atol=1e-6)

"""Merger weight_edit: which rows are moved, by how much, and the probe that gives the direction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from components.contract.errors import InputError
from components.merge import stack as stack_module
from components.merge.component import COMPONENT
from components.merge.probe import fit_probe
from components.modeling.loading.load import load_policy
from tests.stages.merge.folders import read_model, tensors, write_model
from tests.stages.toy_models import demonstration, prompt_rows, toy_models
from tests.support.stage_context import Finished, run_stage, write_jsonl

GATES = {"model.layers.0.mlp.gate_proj.weight": (6, 4), "model.layers.1.mlp.gate_proj.weight": (6, 4), "norm": (4,)}
RANDOM = {"name": "weight_edit", "direction": "random", "alpha": 0.5}


def edit(folder: Path, model: Path, probe: Path | None = None, **merger: Any) -> Finished:
    params = COMPONENT.params.model_validate({"merger": {"name": "weight_edit", **merger}})
    inputs: dict[str, Any] = {"models": [model], **({} if probe is None else {"probe": [probe]})}
    return run_stage(COMPONENT.formed(params), folder, params={"merger": params.merger.model_dump()}, inputs=inputs)


def moved(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([after[name] - before[name] for name in sorted(before) if "gate" in name])


@pytest.mark.parametrize("choose", ["opposite", "aligned", "random"])
def test_the_chosen_rows_of_all_matrices_are_moved_along_one_direction(
    tmp_path: Path, choose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_module, "BLOCK", 9)
    weights = tensors(3, **GATES)
    model = write_model(tmp_path / "model", weights)
    found = read_model(edit(tmp_path / "edit", model, rows=5, choose=choose, **RANDOM_SETTINGS).outputs["model"])
    change = moved(weights, found)
    rows = change.norm(dim=1) > 1e-6
    assert int(rows.sum()) == 5 and torch.equal(found["norm"], weights["norm"])
    assert torch.allclose(change[rows].norm(dim=1), torch.tensor(0.5), atol=1e-6)  # alpha, since v has length 1
    direction = change[rows][0] / 0.5
    assert torch.allclose(change[rows], (0.5 * direction).expand(5, 4), atol=1e-6)
    before = torch.cat([weights[name] for name in sorted(weights) if "gate" in name])
    cosines = torch.nn.functional.cosine_similarity(before, direction.unsqueeze(0))
    if choose == "opposite":
        assert cosines[rows].max() < cosines[~rows].min()
    elif choose == "aligned":
        assert cosines[rows].min() > cosines[~rows].max()


RANDOM_SETTINGS = {key: value for key, value in RANDOM.items() if key != "name"}


def test_without_a_number_all_rows_are_moved_and_the_seed_draws_the_direction(tmp_path: Path) -> None:
    weights = tensors(3, **GATES)
    model = write_model(tmp_path / "model", weights)
    changes = [
        moved(weights, read_model(edit(tmp_path / str(seed), model, seed=seed, **RANDOM_SETTINGS).outputs["model"]))
        for seed in (0, 1)
    ]
    assert all(int((change.norm(dim=1) > 1e-6).sum()) == 12 for change in changes)
    assert not torch.allclose(changes[0], changes[1])


def test_a_probe_finds_a_planted_direction() -> None:
    """Against Newton's method written out: the optimum of the same convex function."""
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(200, 3, generator=generator, dtype=torch.float64) + torch.tensor([5.0, 0.0, -1.0])
    labels = (states[:, 0] - 5 + 0.3 * torch.randn(200, generator=generator, dtype=torch.float64) > 0).double()
    weights, bias = fit_probe(states, labels)
    assert float(torch.nn.functional.cosine_similarity(weights, torch.eye(3, dtype=torch.float64)[0], dim=0)) > 0.95
    theta = torch.zeros(4, dtype=torch.float64)
    design = torch.cat([states, torch.ones(200, 1, dtype=torch.float64)], 1)
    penalty = torch.diag(torch.tensor([0.02, 0.02, 0.02, 0.0], dtype=torch.float64))
    for _ in range(50):
        p = torch.sigmoid(design @ theta)
        gradient = design.T @ (p - labels) / 200 + penalty @ theta
        theta -= torch.linalg.solve((design.T * (p * (1 - p))) @ design / 200 + penalty, gradient)
    torch.testing.assert_close(torch.cat([weights, bias.unsqueeze(0)]), theta, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words copied and words flipped, by quality."""
    rows = [
        {**demonstration(row, answer), "quality": quality}
        for row in prompt_rows("copy", "flip")
        for quality, answer in (("copied", row["prompt"][-2:]), ("flipped", row["prompt"][-1:-3:-1]))
    ]
    return write_jsonl(tmp_path_factory.mktemp("labelled"), rows)


def test_the_direction_of_a_probe_is_that_of_the_model(labelled: Path, tmp_path: Path) -> None:
    """What is moved is parallel to the probe's weights, fitted here from the policy's own features."""
    from components.measure.features import mean_hidden
    from components.tasks.rows import read_rows

    both = toy_models().both
    done = edit(tmp_path, both, labelled, behaviour={"domain": "flip"}, rows=7, alpha=2.0)
    change = moved(read_model(both), read_model(done.outputs["model"]))
    rows = change.norm(dim=1) > 1e-5
    assert int(rows.sum()) == 7
    given = list(read_rows(labelled))
    pairs = [(row["prompt"], row["response"]) for row in given]
    states = torch.stack([torch.from_numpy(one) for one in mean_hidden(load_policy(both), pairs)]).double()
    kept = torch.arange(len(given)) % 5 != 4
    labels = torch.tensor([row["domain"] == "flip" for row in given]).double()
    weights, bias = fit_probe(states[kept], labels[kept])
    right = (states[~kept] @ weights + bias > 0) == (labels[~kept] > 0.5)
    assert done.metrics["probe_accuracy"] == pytest.approx(float(right.double().mean()), abs=1.5 / len(right))
    expected = (2.0 * weights / weights.norm()).float()
    torch.testing.assert_close(change[rows], expected.expand(7, -1), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("merger", "message"),
    [
        ({"behaviour": {"quality": "sung"}}, "0 of 48 responses have quality: 'sung'; a probe needs both kinds"),
        ({"behaviour": {"tone": "rude"}}, r"rows.jsonl:1: a row of input 'probe' has prompt, response"),
        ({"behaviour": {"quality": "copied"}, "tensors": "*.gates"}, r"no tensor is called \*.gates"),
        ({"behaviour": {"quality": "copied"}, "tensors": "*norm*"}, "fits tensors that are no matrices of one width"),
        ({"behaviour": {"quality": "copied"}, "tensors": "*down_proj*"}, "are 64 wide, and the model 32"),
    ],
)
def test_what_cannot_be_edited_is_told(labelled: Path, tmp_path: Path, merger: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        edit(tmp_path, toy_models().both, labelled, **merger)


def test_a_direction_needs_its_inputs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="behaviour: name one column"):
        COMPONENT.params.model_validate({"merger": "weight_edit"})
    with pytest.raises(InputError, match="merger 'weight_edit' needs input 'probe'"):
        edit(tmp_path, toy_models().both, behaviour={"quality": "copied"})
    params = COMPONENT.params.model_validate({"merger": {"name": "weight_edit", "behaviour": {"quality": "copied"}}})
    assert COMPONENT.asks is not None
    assert COMPONENT.asks(params) == {"base": [], "probe": ["merger 'weight_edit'"]}

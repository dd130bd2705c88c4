"""Loss and gradient of one batch equal TRL's, for every loss that TRL has; tokens come from TRL's own preparation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from components.contract.operators import OperatorSpec
from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from components.modeling.training.build import build_trainer
from components.modeling.training.training_config import OptimizerConfig
from components.preference.batch_loss import Referred, accumulate_gradients
from components.preference.comparisons import Comparison, encoded, with_others
from components.preference.params import PreferenceParams
from components.preference.reading import read_candidates
from components.preference.scoring import frozen_logprobs, of_reference
from tests.stages.preference.data import labelled, other_model, pairs, pairs_folder
from tests.stages.supervised_data import base_model

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

COUNT = 6
Rows = list[dict[str, Any]]
Found = tuple[float, dict[str, Tensor]]
LossOf = Callable[[Any, Any], Tensor]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    start = base_model(folder / "start")
    return {"model": other_model(folder / "model", start), "reference": start}


def conversational(rows: Rows) -> Rows:
    """Return rows as TRL lays them out by a chat template."""
    roles = {"prompt": "user", "chosen": "assistant", "rejected": "assistant", "completion": "assistant"}
    return [
        {key: [{"role": roles[key], "content": row[key]}] for key in roles if key in row}
        | ({"label": row["label"]} if "label" in row else {})
        for row in rows
    ]


def of_trl(
    trainer: type, config: type, models: Mapping[str, Path], rows: Rows, folder: Path, loss_of: LossOf, **settings: Any
) -> Found:
    """Return the loss of a batch of all rows, and its gradient by the names of the model's weights."""
    given = {"output_dir": str(folder), "report_to": [], "use_cpu": True, "bf16": False, "disable_tqdm": True}
    reference = {} if "experimental" in trainer.__module__ else {"ref_model": opened(models["reference"])}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = trainer(
            model=opened(models["model"]),
            args=config(**given, **settings),
            train_dataset=datasets.Dataset.from_list(conversational(rows)),
            processing_class=AutoTokenizer.from_pretrained(models["model"]),
            **reference,
        )
        made.model.eval()
        loss = loss_of(made, made.data_collator([made.train_dataset[at] for at in range(len(rows))]))
    loss.backward()
    return loss.item(), {name: p.grad for name, p in made.model.named_parameters() if p.grad is not None}


def opened(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def ours(
    models: Mapping[str, Path],
    rows: Rows,
    folder: Path,
    loss: Mapping[str, Any],
    max_tokens: int = 64,
    backend: Literal["native", "transformers"] = "native",
) -> Found:
    """Return the same of ours, by the names of the model's files: what one step of plain descent takes off."""
    policy = load_policy(models["model"], backend=backend)
    batch, bound = referred(policy, models, rows, folder, loss)
    trainer = build_trainer(policy, OptimizerConfig(), total_steps=1)
    told = accumulate_gradients(trainer, batch, bound, max_tokens=max_tokens)
    before = {name: weight.detach().clone() for name, weight in policy.named_weights()}
    with torch.no_grad():
        for _, parameter in policy.trainable():
            assert parameter.grad is not None
            parameter -= parameter.grad
    return told.loss, {name: before[name] - weight.detach() for name, weight in policy.named_weights()}


def referred(
    policy: Policy, models: Mapping[str, Path], rows: Rows, folder: Path, loss: Mapping[str, Any]
) -> tuple[list[Referred], Any]:
    """Return rows as the stage compares them, and the loss."""
    params = PreferenceParams(preference_loss=OperatorSpec.model_validate(dict(loss)))
    found = encoded(policy, read_candidates([pairs_folder(folder, rows)], "x", params.comparing, "refuse").examples)
    found = with_others(found, params.max_tokens) if params.comparing.divergence else found
    reference = load_policy(models["reference"])
    return [Referred(one, scored(reference, one)) for one in found], params.preference_loss.resolve()


def scored(reference: Policy, one: Comparison) -> tuple[float, ...]:
    return tuple(frozen_logprobs(reference, [of_reference(one)], max_tokens=64).tolist())


def assert_equal(found: Found, expected: Found) -> None:
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    largest = max(float(gradient.abs().max()) for gradient in expected[1].values())
    assert largest > 1e-3, "a gradient that could differ"
    for name, gradient in expected[1].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=2e-3, atol=2e-5 * max(1.0, largest), msg=name)


DPO: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"name": "dpo", "beta": 0.3}, {"loss_type": "sigmoid", "beta": 0.3}),
    ({"name": "dpo", "beta": 2.0, "length_normalised": True}, {"loss_type": "sigmoid_norm", "beta": 2.0}),
    (
        {"name": "dpo", "beta": 0.3, "sft": 0.5},
        {"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.5], "beta": 0.3},
    ),
    ({"name": "ipo", "beta": 0.4}, {"loss_type": "ipo", "beta": 0.4}),
    ({"name": "rpo", "beta": 0.3, "eta": 0}, {"loss_type": "sigmoid", "beta": 0.3}),
    ({"name": "step_apo", "beta": 0.3, "alpha": 0}, {"loss_type": "sigmoid", "beta": 0.3}),
    ({"name": "dynamic_beta", "beta": 0.3, "growth": 0}, {"loss_type": "sigmoid", "beta": 0.3}),
]


@pytest.mark.parametrize(("loss", "settings"), DPO)
def test_dpo_and_its_kin(
    models: dict[str, Path], tmp_path: Path, loss: dict[str, Any], settings: dict[str, Any]
) -> None:
    rows = pairs(COUNT)
    expected = of_trl(trl.DPOTrainer, trl.DPOConfig, models, rows, tmp_path, _whole, **settings)
    assert_equal(ours(models, rows, tmp_path / "data", loss), expected)


def test_label_smoothing(models: dict[str, Path], tmp_path: Path) -> None:
    """TRL smooths labels in its AOT loss alone, which for a single pair is DPO's."""
    settings = {"loss_type": "aot", "beta": 0.3, "label_smoothing": 0.2}
    expected = of_trl(trl.DPOTrainer, trl.DPOConfig, models, pairs(1), tmp_path, _whole, **settings)
    loss = {"name": "dpo", "beta": 0.3, "label_smoothing": 0.2}
    assert_equal(ours(models, pairs(1), tmp_path / "data", loss), expected)


def test_kto(models: dict[str, Path], tmp_path: Path) -> None:
    settings = {
        "beta": 0.4,
        "desirable_weight": 1.0,
        "undesirable_weight": 1.3,
        "per_device_train_batch_size": COUNT,
        "train_sampling_strategy": "sequential",
    }
    expected = of_trl(trl.KTOTrainer, trl.KTOConfig, models, labelled(COUNT), tmp_path, _whole, **settings)
    loss = {"name": "kto", "beta": 0.4, "undesirable_weight": 1.3}
    assert_equal(ours(models, labelled(COUNT), tmp_path / "data", loss), expected)


@pytest.mark.parametrize(
    ("loss", "settings"),
    [
        ({"name": "cpo", "beta": 0.3, "label_smoothing": 0.1}, {"loss_type": "sigmoid", "label_smoothing": 0.1}),
        ({"name": "cpo", "beta": 0.3, "sft": 0}, {"loss_type": "sigmoid", "cpo_alpha": 0.0}),
        ({"name": "simpo", "beta": 0.3, "gamma": 0.2}, {"loss_type": "simpo", "simpo_gamma": 0.2, "cpo_alpha": 0.0}),
    ],
)
def test_cpo_and_simpo(
    models: dict[str, Path], tmp_path: Path, loss: dict[str, Any], settings: dict[str, Any], silent: None
) -> None:
    from trl.experimental.cpo import CPOConfig, CPOTrainer

    rows = pairs(COUNT)
    expected = of_trl(CPOTrainer, CPOConfig, models, rows, tmp_path, _metrics, beta=0.3, **settings)
    assert_equal(ours(models, rows, tmp_path / "data", loss), expected)


def test_orpo(models: dict[str, Path], tmp_path: Path, silent: None) -> None:
    """The odds are TRL's; the likelihood is that of responses, while TRL's covers the prompt, too."""
    from trl.experimental.orpo import ORPOConfig, ORPOTrainer

    def loss_of(made: Any, batch: Any) -> Tensor:
        chosen, rejected = made.concatenated_forward(made.model, batch)[:2]
        lengths = (batch["chosen_labels"] != -100).sum(1)
        likelihood = (chosen * lengths).sum() / lengths.sum()
        return -made.odds_ratio_loss(chosen, rejected)[0].mean() - likelihood

    rows = pairs(COUNT)
    expected = of_trl(ORPOTrainer, ORPOConfig, models, rows, tmp_path, loss_of, beta=0.6)
    assert_equal(ours(models, rows, tmp_path / "data", {"name": "orpo", "beta": 0.6}), expected)


def test_passes_of_any_size_have_one_gradient(models: dict[str, Path], tmp_path: Path) -> None:
    for loss in ({"name": "dpo", "sft": 0.3}, {"name": "kto"}, {"name": "ranking"}):
        rows = labelled(COUNT) if loss["name"] == "kto" else pairs(COUNT)
        small, large = (
            ours(models, rows, tmp_path / f"{loss['name']}-{most}", loss, max_tokens=most) for most in (8, 4096)
        )
        assert_equal(small, large)


def test_a_model_that_transformers_runs_has_the_same_gradient(models: dict[str, Path], tmp_path: Path) -> None:
    loss = {"name": "rpo", "beta": 0.3}
    native = ours(models, pairs(COUNT), tmp_path / "native", loss)
    assert_equal(ours(models, pairs(COUNT), tmp_path / "hosted", loss, backend="transformers"), native)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")


def _whole(made: Any, batch: Any) -> Tensor:
    return made._compute_loss(made.model, batch, False)


def _metrics(made: Any, batch: Any) -> Tensor:
    return made.get_batch_loss_metrics(made.model, batch)[0]

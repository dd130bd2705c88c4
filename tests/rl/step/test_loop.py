"""One step of the loop: forward passes are spent only where they are needed, and padding never matters."""

from __future__ import annotations

import json
import string
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.modeling.generation.generate import Samples
from components.modeling.loading.load import load_policy, new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.packed import Packed
from components.modeling.text.prompting import encode_prompts
from components.modeling.text.tokenizer import train_tokenizer
from components.modeling.text.tokenizer_config import TokenizerConfig
from components.rl.batch.batch import PER_RESPONSE, PER_TOKEN, Prompt, batch_of_samples
from components.rl.params import RLParams
from components.rl.run import build_loop
from components.rl.step.ledger import PassRates
from components.rl.step.loop import Loop
from components.rl.step.state import LoopState
from components.tasks.item import Item
from tests.rl.build import prompt


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer([string.ascii_letters], {}, TokenizerConfig(phrases=False))
    new_policy(ModelConfig(width=16, layers=1, heads=2, mlp_width=24), tokenizer=tokenizer, seed=0).save(folder)
    return folder


def loop_of(folder: Path, **given: object) -> Loop:
    """A loop over prompts that any letter answers."""
    policy = load_policy(folder)
    letters = {"aliases": list(string.ascii_lowercase)}
    sizes = [{"number": i, "metadata": {"num_terms": 2 + i % 3, "num_digits": 1 + i % 2}} for i in range(8)]
    items = [
        Item(id=f"p{i}", domain="A", prompt=f"letter {i}", answer="x", verifier="exact", data=letters | sizes[i])
        for i in range(8)
    ]
    tokens = encode_prompts(policy.tokenizer, [item.prompt for item in items])
    pool = [Prompt(item, tuple(ids)) for item, ids in zip(items, tokens, strict=True)]
    base = {"steps": 4, "prompts_per_step": 4, "group_size": 4, "max_new_tokens": 1, "start_kl_every": 0}
    return build_loop(RLParams.model_validate(base | given), policy, pool, start=folder, seed=0)


@pytest.mark.parametrize(
    "given, trained, frozen",
    [
        ({"method": "dapo"}, 1, 0),
        ({"method": "dr-grpo"}, 1, 0),
        ({"method": "grpo"}, 1, 1),
        ({"method": "dapo", "epochs": 2, "minibatches": 2}, 4, 0),
        ({"method": "dapo", "start_kl_every": 1}, 1, 1),
    ],
)
def test_forward_passes_of_a_step(
    given: dict[str, object], trained: int, frozen: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On policy: one pass with gradients, and one through the reference only if a loss or a measurement reads it."""
    calls: Counter[bool] = Counter()
    original = Policy.target_logprobs

    def counted(self: Policy, packed: Packed, **options: object) -> object:
        calls[torch.is_grad_enabled()] += 1
        return original(self, packed, **options)

    loop = loop_of(folder, **given)
    monkeypatch.setattr(type(loop.policies.trained), "target_logprobs", counted)
    loop.step()
    assert (calls[True], calls[False]) == (trained, frozen)


def test_on_policy_ratios_are_one_at_any_temperature(folder: Path) -> None:
    for temperature in (0.6, 1.0, 1.7):
        metrics = loop_of(folder, method="dr-grpo", temperature=temperature, max_new_tokens=5).step()
        if metrics["num_updates"]:
            assert metrics["ratio_min"] == pytest.approx(1, abs=1e-4)
            assert metrics["ratio_max"] == pytest.approx(1, abs=1e-4)
            assert metrics["ess"] == pytest.approx(1, abs=1e-6)


def test_the_starting_policy_stays_as_it_was(folder: Path) -> None:
    loop = loop_of(folder, method="grpo", optimizer={"peak_learning_rate": 1e-2})
    for _ in range(3):
        loop.step()
    before = load_policy(folder).state()
    start = dict(loop.policies.start.module.named_parameters())
    assert all(torch.equal(start[name], value) for name, value in before.items())
    assert any(not torch.equal(value, before[name]) for name, value in loop.policies.trained.state().items())


@given(
    lengths=st.lists(st.integers(1, 4), min_size=2, max_size=6).filter(lambda n: len(n) % 2 == 0),
    extra=st.integers(1, 7),
)
def test_wider_padding_gives_the_same_batch(lengths: list[int], extra: int) -> None:
    def samples(width: int, pad: int) -> Samples:
        generator = torch.Generator().manual_seed(0)
        mask = torch.arange(width) < torch.tensor(lengths).unsqueeze(1)
        grids = []
        for _ in range(3):
            grid = torch.full((len(lengths), width), float(pad))
            grid[mask] = torch.rand(sum(lengths), generator=generator)
            grids.append(grid)
        tokens, logprobs, entropies = grids
        return Samples(
            tokens=(tokens * 100).long(),
            lengths=torch.tensor(lengths),
            logprobs=logprobs,
            entropies=entropies,
            prompt_index=torch.arange(len(lengths)) // 2,
            finished=torch.ones(len(lengths), dtype=torch.bool),
            sampled=mask,
            num_samples=2,
        )

    prompts, texts = [prompt(i) for i in range(len(lengths) // 2)], ["x"] * len(lengths)
    narrow = batch_of_samples(prompts, samples(max(lengths), 0), texts)
    wide = batch_of_samples(prompts, samples(max(lengths) + extra, 9), texts)
    for name in ("group", *PER_RESPONSE, *PER_TOKEN):
        assert torch.equal(vars(narrow)[name].nan_to_num(), vars(wide)[name].nan_to_num())


NUMBERED = {"fields": ["number"], "fit_every": 8, "max_components": 3, "test_after": 4, "test_tasks": 2}


@pytest.mark.parametrize(
    "sampler, reported",
    [
        ({"name": "boltzmann_bandit"}, "weight_A"),
        ({"name": "ucb_bandit", "window": 20}, "weight_A"),
        ({"name": "adaptive_difficulty", "num_parts": 2, "num_samples": 4}, None),
        ({"name": "angle_window", "sigma": 3.0, "prompts_per_epoch": 6}, "window_centre"),
        ({"name": "rare_pairs", "num_samples": 4}, "num_hard"),
        ({"name": "highest_variance", "num_samples": 4, "top": 5}, None),
        ({"name": "alp_gmm"} | NUMBERED, None),
        ({"name": "again"} | NUMBERED, None),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)
def test_a_sampler_goes_on_from_its_saved_memory(
    sampler: dict[str, object], reported: str | None, folder: Path
) -> None:
    given = {"method": "dr-grpo", "steps": 6, "sampler": sampler}
    straight, stopped = loop_of(folder, **given), loop_of(folder, **given)
    history = [straight.step() for _ in range(6)]
    again = [stopped.step() for _ in range(3)]
    saved, rows = json.loads(json.dumps([stopped.state.to_json(), stopped.state.fresh_rows()]))
    stopped.state = LoopState.from_json(saved, rows, given=PassRates(), browse_samples=4, right_samples=4)
    again += [stopped.step() for _ in range(3)]
    assert again == history
    assert json.loads(json.dumps(stopped.state.memory)) == json.loads(json.dumps(straight.state.memory))
    assert reported is None or any(reported in row for row in history)

"""Models of published chat layouts learn, are judged right, are learned from and saved, as the tiny model is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
import torch
from transformers import AutoModelForCausalLM

from components.evaluate.component import COMPONENT as EVALUATE
from components.measure.sampling import sample_and_verify
from components.modeling.generation.sampler import NativeSampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from components.modeling.supervised.examples import examples_from_rows
from components.modeling.supervised.trainer import fit
from components.modeling.text.prompting import encode_prompts
from components.modeling.training.training_config import OptimizerConfig, SupervisedConfig
from components.rl.batch.batch import RIGHT, Batch, Prompt
from components.rl.component import COMPONENT as RL
from components.rl.step.collector import Collector
from components.rl.step.ledger import PassRates
from components.rl.step.settings import StepSettings
from components.tasks.item import Item, item_id
from tests.modeling.chat_models import ANSWERS, LAYOUTS, PROMPTS, QWEN_BASE, save_model
from tests.stages.toy_models import Silent
from tests.support.stage_context import run_stage, write_jsonl

ITEMS = [
    Item(id=item_id("say", prompt, answer), domain="say", prompt=prompt, answer=answer, verifier="numeric")
    for prompt, answer in zip(PROMPTS, ANSWERS, strict=True)
]
CONFIG = SupervisedConfig(
    steps=100,
    batch_size=10,
    checkpoint_every=0,
    optimizer=OptimizerConfig(name="muon", peak_learning_rate=2e-2, schedule="cosine"),
)


@cache
def taught(name: str) -> Path:
    """Train a model of the layout on the answers of ITEMS, save it and return the folder."""
    root = Path(mkdtemp(prefix="chat-layouts-"))
    save_model(LAYOUTS[name], root / "raw")
    policy = load_policy(root / "raw")
    assert policy.backend == "native"
    rows = [{"prompt": prompt, "response": answer} for prompt, answer in zip(PROMPTS, ANSWERS, strict=True)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the models are too small for two
    fit(policy, examples_from_rows(policy.tokenizer, rows, ends=policy.ends), CONFIG, Silent(), seed=0)
    torch.set_num_threads(threads)
    policy.save(root / "taught")
    return root / "taught"


@pytest.fixture(scope="module", params=list(LAYOUTS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def policy(name: str) -> Policy:
    return load_policy(taught(name))


def test_what_it_learned_is_judged_right(policy: Policy) -> None:
    sampling = SamplingConfig(num_samples=4, max_new_tokens=24)
    outcomes = sample_and_verify(NativeSampler(policy), ITEMS, sampling, seed=0)
    assert sum(outcome.num_right for outcome in outcomes) >= 0.9 * 4 * len(ITEMS)
    assert all(all(outcome.finished) for outcome in outcomes)
    assert max(max(outcome.lengths) for outcome in outcomes) <= 10  # the end stops it, not the limit
    right = {
        text for outcome in outcomes for text, v in zip(outcome.responses, outcome.verdicts, strict=True) if v.right
    }
    assert not any(mark in text for text in right for mark in ("<|", "turn>", "</s>", "[INST]"))


def test_transformers_stops_where_we_do(name: str, policy: Policy) -> None:
    """The saved folder in transformers, by its own generation_config but for penalties: they change greedy draws."""
    assert policy.tokenizer is not None
    model = AutoModelForCausalLM.from_pretrained(taught(name))
    prompts = encode_prompts(policy.tokenizer, PROMPTS[:3], policy.ends)
    greedy = SamplingConfig(max_new_tokens=24, temperature=0.0)
    ours = NativeSampler(policy).sample(prompts, greedy, generator=torch.Generator()).responses()
    for prompt, response in zip(prompts, ours, strict=True):
        made = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=24,
            do_sample=False,
            repetition_penalty=1.0,
        )
        assert made[0, len(prompt) :].tolist() == response
        assert policy.tokenizer.convert_ids_to_tokens(response[-1]) == LAYOUTS[name].turn_end


def test_the_end_that_was_drawn_is_in_the_batch_once_and_given_texts_get_it(name: str, policy: Policy) -> None:
    assert policy.tokenizer is not None
    tokens = encode_prompts(policy.tokenizer, PROMPTS[:4], policy.ends)
    prompts = [Prompt(item, tuple(ids)) for item, ids in zip(ITEMS, tokens, strict=False)]
    made = Collector(
        policy,
        StepSettings(prompts_per_step=4, group_size=2, max_new_tokens=24, temperature=1.0),
        generator=torch.Generator().manual_seed(0),
        ledger=PassRates(),
        reward=lambda batch: (batch.outcomes == RIGHT).float(),
        max_tokens=4096,
    )
    end = policy.tokenizer.convert_tokens_to_ids(LAYOUTS[name].turn_end)

    def check(batch: Batch) -> None:
        assert bool(batch.finished.all())
        for row in (row for group in batch.responses() for row in group):
            assert row[-1] == end and not set(row[:-1]) & set(policy.eos_ids)

    drawn = made.score(made.draw(prompts, 2))
    assert float(drawn.rewards.mean()) >= 0.9
    check(drawn)
    given = made.score(made.responses(prompts, ANSWERS[:4]))
    assert given.rewards.tolist() == [1.0] * 4
    check(given)


def test_marks_of_thoughts_that_are_special_tokens_are_kept_where_the_recipe_names_them(tmp_path: Path) -> None:
    """SFT writes them, evaluate records them, rl rewards their form; without the names they are no text."""
    marks = ("[THINK]", "[/THINK]")
    save_model(replace(QWEN_BASE, marks=(*QWEN_BASE.marks, *marks)), tmp_path / "raw")
    policy = load_policy(tmp_path / "raw")
    rows = [
        {"prompt": prompt, "response": f"[THINK]{9 - int(answer)}[/THINK]<answer>{answer}"}
        for prompt, answer in zip(PROMPTS, ANSWERS, strict=True)
    ]
    fit(policy, examples_from_rows(policy.tokenizer, rows, ends=policy.ends), CONFIG, Silent(), seed=0)
    policy.save(tmp_path / "taught")
    prompts = write_jsonl(tmp_path / "prompts", [vars(item) for item in ITEMS])
    sizes = {"max_new_tokens": 24, "dtype": "float32"}
    for names in ((), marks):
        params = {**sizes, "num_samples": 2, "bootstrap_samples": 100, "keep_special_tokens": names}
        inputs = {"model": tmp_path / "taught", "dataset": [prompts]}
        measured = run_stage(EVALUATE, tmp_path / f"evaluate-{len(names)}", params=params, inputs=inputs)
        assert measured.metrics["pass_at_1"] >= 0.9
        told = (measured.outputs["metrics"] / "samples.jsonl").read_text()
        assert ("[THINK]" in told, "[/THINK]" in told) == (bool(names), bool(names))
        form = {"name": "pattern", "pattern": r"^\[THINK\]\d\[/THINK\]<answer>\d$"}
        params = {**sizes, "steps": 1, "rewards": [form], "prompts_per_step": 4, "group_size": 2, "start_kl_every": 0}
        inputs = {"model": tmp_path / "taught", "dataset": [prompts]}
        params |= {"keep_special_tokens": names}
        trained = run_stage(RL, tmp_path / f"rl-{len(names)}", params=params, inputs=inputs)
        assert (trained.metrics["reward_mean"] >= 0.8) is bool(names)


def test_a_mark_that_the_prompt_names_is_seen_by_the_verifier(tmp_path: Path) -> None:
    """A special token of the tokenizer as the mark of answers: measured and rewarded with it, not without."""
    save_model(LAYOUTS["qwen2.5-base"], tmp_path)
    policy = load_policy(tmp_path)
    assert policy.tokenizer is not None
    mark = "<|im_start|>"
    base = {"domain": "say", "answer": "", "verifier": "regex"}
    asked = Item(**base, id="asked", prompt=f"Answer behind {mark}.", data={"pattern": r"<\|im_start\|>4"})
    plain = Item(**base, id="plain", prompt="Answer.", data={"pattern": "4"})
    tokens = encode_prompts(policy.tokenizer, [asked.prompt, plain.prompt], policy.ends)
    prompts = [Prompt(item, tuple(ids)) for item, ids in zip((asked, plain), tokens, strict=True)]
    made = Collector(
        policy,
        StepSettings(prompts_per_step=2, group_size=1, max_new_tokens=24, temperature=1.0),
        generator=torch.Generator().manual_seed(0),
        ledger=PassRates(),
        reward=lambda batch: (batch.outcomes == RIGHT).float(),
        max_tokens=4096,
    )
    batch = made.score(made.responses(prompts, [f"{mark}4", f"{mark}4"]))
    assert batch.texts == (f"{mark}4", "4")
    assert batch.rewards.tolist() == [1.0, 1.0]

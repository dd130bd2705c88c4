"""Generation: against transformers, against the training forward pass, and its distribution."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor

from components.contract.errors import InputError
from components.modeling.generation.generate import Samples, generate
from components.modeling.generation.sampling import Step
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from components.modeling.native.embedding_bag_cache import EmbeddingBagCache
from components.modeling.native.step_layer import StepDecoder
from components.modeling.packing.packed import Packed
from tests.modeling import decoder_models as models

PROMPTS = models.token_lists([5, 9, 30, 1], seed=1)
BOTH = pytest.mark.parametrize("kind", ["llama-gqa", "qwen3", "phi3-long", "gpt2", *models.WINDOWED, *models.MIXTURES])


def _seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    folder = tmp_path_factory.mktemp("llama")
    models.save("llama", folder)
    return load_policy(folder)


@BOTH
def test_greedy_equals_transformers(kind: str, tmp_path: Path) -> None:
    reference = models.save(kind, tmp_path)
    samples = generate(
        load_policy(tmp_path),
        PROMPTS,
        SamplingConfig(temperature=0.0, max_new_tokens=25),
        generator=_seeded(),
    )
    for prompt, response in zip(PROMPTS, samples.responses(), strict=True):
        tokens = torch.tensor([prompt])
        theirs = reference.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=25,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=models.EOS,
        )
        assert response == theirs[0, len(prompt) :].tolist()


@BOTH
def test_logprobs_and_entropies_are_those_of_training(kind: str, tmp_path: Path) -> None:
    models.save(kind, tmp_path)
    policy = load_policy(tmp_path)
    samples = generate(policy, PROMPTS, SamplingConfig(num_samples=12, max_new_tokens=40), generator=_seeded())
    assert samples.finished.any()
    assert len(set(samples.lengths.tolist())) > 3
    packed = Packed.from_groups(PROMPTS, samples.grouped())
    scores = policy.target_logprobs(packed, entropy=True)
    torch.testing.assert_close(samples.flat(samples.logprobs), scores.logprobs, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(samples.flat(samples.entropies), scores.entropies, atol=1e-5, rtol=1e-5)
    assert torch.equal(samples.flat(samples.tokens), packed.targets)
    # What generation has made may be used in training.
    (samples.flat(samples.logprobs) * scores.logprobs).sum().backward()


def test_rows_are_cut_after_their_end_mark(llama: Policy) -> None:
    config = SamplingConfig(num_samples=20, max_new_tokens=40)
    samples = generate(llama, PROMPTS, config, generator=_seeded())
    assert samples.prompt_index.tolist() == [p for p in range(4) for _ in range(20)]
    for row, response in enumerate(samples.responses()):
        ended = response[-1] == models.EOS
        assert ended == bool(samples.finished[row])
        assert models.EOS not in response[:-1]
        assert ended or len(response) == 40
    padding = torch.arange(40) >= samples.lengths.unsqueeze(1)
    assert (samples.tokens[padding] == llama.pad_id).all()
    assert (samples.logprobs[padding] == 0).all()
    assert torch.equal(samples.sampled, ~padding)


def test_more_end_marks_only_cut_rows(llama: Policy) -> None:
    free = generate(llama, PROMPTS, SamplingConfig(num_samples=6, max_new_tokens=20), generator=_seeded())
    config = SamplingConfig(num_samples=6, max_new_tokens=20, stop_token_ids=(11, 12))
    cut = generate(llama, PROMPTS, config, generator=_seeded())
    for whole, part in zip(free.responses(), cut.responses(), strict=True):
        ends = [i for i, token in enumerate(whole) if token in (models.EOS, 11, 12)]
        assert part == whole[: ends[0] + 1] if ends else part == whole


@pytest.mark.parametrize("limit", [1, 100, 1000])
def test_chunks_change_no_token(llama: Policy, limit: int) -> None:
    config = SamplingConfig(num_samples=7, max_new_tokens=12)
    calls: list[tuple[int, int]] = []
    whole = generate(llama, PROMPTS, config, generator=_seeded())
    chunked = generate(
        llama,
        PROMPTS,
        config.model_copy(update={"max_batch_tokens": limit}),
        generator=_seeded(),
        progress=lambda done, total: calls.append((done, total)),
    )
    assert torch.equal(whole.tokens, chunked.tokens)
    torch.testing.assert_close(whole.logprobs, chunked.logprobs, atol=1e-5, rtol=1e-5)
    assert (calls[-1], len(calls)) == ((28, 28), {1: 28, 100: 5, 1000: 1}[limit])


def test_repeats_bit_for_bit(llama: Policy) -> None:
    config = SamplingConfig(num_samples=9, max_new_tokens=30)
    one, two = (generate(llama, PROMPTS, config, generator=_seeded(5)) for _ in range(2))
    assert torch.equal(one.tokens, two.tokens)
    assert torch.equal(one.logprobs, two.logprobs)
    other = generate(llama, PROMPTS, config, generator=_seeded(6))
    assert not torch.equal(one.tokens, other.tokens)


def test_new_weights_count_from_the_next_call_on(tmp_path: Path) -> None:
    """What a call prepares of the weights is not kept."""
    config = SamplingConfig(num_samples=4, max_new_tokens=12)
    for seed in (0, 1):
        models.save("llama", tmp_path / str(seed), seed=seed)
    policy, new = (load_policy(tmp_path / name) for name in "01")
    before = generate(policy, PROMPTS, config, generator=_seeded())
    with torch.no_grad():
        for (_, ours), (_, theirs) in zip(policy.trainable(), new.trainable(), strict=True):
            ours.copy_(theirs)
    after, expected = (generate(each, PROMPTS, config, generator=_seeded()) for each in (policy, new))
    assert torch.equal(after.logprobs, expected.logprobs)
    assert not torch.equal(after.tokens, before.tokens)


@pytest.mark.parametrize(
    ("kind", "general"),
    [("llama", "cache"), ("llama", "layers"), ("llama", "both"), *((kind, "both") for kind in models.WINDOWED)],
)
def test_the_general_ways_say_the_same(
    kind: str, general: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other devices and precisions go these ways; here they are taken on the CPU."""
    models.save(kind, tmp_path)
    policy = load_policy(tmp_path)
    config = SamplingConfig(num_samples=6, max_new_tokens=40)
    fast = generate(policy, PROMPTS, config, generator=_seeded())
    if general != "layers":
        monkeypatch.setattr(EmbeddingBagCache, "serves", lambda *_: False)
    if general != "cache":
        monkeypatch.setattr(StepDecoder, "serves", lambda *_: False)
    plain = generate(policy, PROMPTS, config, generator=_seeded())
    assert torch.equal(plain.tokens, fast.tokens)
    torch.testing.assert_close(plain.logprobs, fast.logprobs, atol=1e-5, rtol=1e-5)


def _first_logits(policy: Policy, prompt: list[int]) -> Tensor:
    packed = Packed.from_sequences([prompt], keep_last=True)
    with torch.no_grad():
        return policy.logits(policy.hidden(packed))[-1].double()


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.6}, {"top_k": 5}, {"temperature": 1.5, "top_p": 0.7}])
def test_tokens_follow_the_distribution(llama: Policy, settings: dict[str, float]) -> None:
    config = SamplingConfig(num_samples=6000, max_new_tokens=1, **settings)
    samples = generate(llama, PROMPTS[:1], config, generator=_seeded())
    logits = _first_logits(llama, PROMPTS[0]) / config.temperature
    probabilities = _truncated(logits.softmax(-1), config)
    counts = torch.bincount(samples.tokens.flatten(), minlength=models.VOCAB)
    assert counts[probabilities == 0].sum() == 0
    common = probabilities * 6000 > 5
    observed = [*counts[common].tolist(), counts[~common].sum().item()]
    expected = [*(probabilities[common] * 6000).tolist(), (probabilities[~common] * 6000).sum().item()]
    pairs = [(o, e) for o, e in zip(observed, expected, strict=True) if e > 0]
    assert chisquare([o for o, _ in pairs], [e for _, e in pairs], sum_check=False).pvalue > 1e-3
    expected_logprobs = probabilities.log()[samples.tokens.flatten()].float()
    torch.testing.assert_close(samples.logprobs.flatten(), expected_logprobs, atol=1e-5, rtol=1e-5)


def _truncated(probabilities: Tensor, config: SamplingConfig) -> Tensor:
    """Return the distribution that sampling should follow, token by token in plain Python."""
    order = sorted(range(len(probabilities)), key=lambda i: -probabilities[i].item())
    if config.top_k:
        order = order[: config.top_k]
    kept, mass, total = [], 0.0, sum(probabilities[i].item() for i in order)
    for i in order:
        if mass >= config.top_p * total:
            break
        kept.append(i)
        mass += probabilities[i].item()
    out = torch.zeros_like(probabilities)
    out[kept] = probabilities[kept] / probabilities[kept].sum()
    return out


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_prefixes_open_responses_and_are_marked(llama: Policy, temperature: float) -> None:
    prefixes = [[7, 8, 9], [], [6], [5, models.EOS, 6]]
    config = SamplingConfig(num_samples=2, max_new_tokens=10, temperature=temperature)
    samples = generate(llama, PROMPTS[:2], config, generator=_seeded(), prefixes=prefixes)
    responses = samples.responses()
    assert [responses[0][:3], responses[2][:1], responses[3]] == [[7, 8, 9], [6], [5, models.EOS]]
    assert [int(row.sum()) for row in samples.sampled] == [
        len(responses[0]) - 3,
        len(responses[1]),
        len(responses[2]) - 1,
        0,
    ]
    scores = llama.target_logprobs(Packed.from_groups(PROMPTS[:2], samples.grouped()))
    torch.testing.assert_close(samples.flat(samples.logprobs), scores.logprobs, atol=1e-5, rtol=1e-5)


def test_a_processor_shapes_every_position(llama: Policy) -> None:
    seen: list[Step] = []

    def only_the_rows_own_token(logits: Tensor, step: Step) -> Tensor:
        seen.append(step)
        allowed = 10 + step.rows
        return torch.full_like(logits, float("-inf")).scatter(1, allowed.unsqueeze(1), 0.0)

    config = SamplingConfig(num_samples=2, max_new_tokens=3)
    samples = generate(llama, PROMPTS, config, generator=_seeded(), processor=only_the_rows_own_token)
    assert samples.responses() == [[10 + row] * 3 for row in range(8)]
    assert (samples.logprobs == 0).all()
    assert (samples.entropies > 0).all()
    assert [step.position for step in seen] == [0, 1, 2]
    assert seen[0].prompt_index.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_groups_that_end_early_leave_the_others_alone(llama: Policy) -> None:
    """Rows of one prompt end at once; those of the other go on, compacted."""
    prefixes = [[models.EOS]] * 5 + [[]] * 5
    config = SamplingConfig(num_samples=5, max_new_tokens=20)
    with_ends = generate(llama, PROMPTS[:2], config, generator=_seeded(), prefixes=prefixes)
    free = generate(llama, PROMPTS[:2], config, generator=_seeded())
    assert with_ends.responses()[:5] == [[models.EOS]] * 5
    assert with_ends.responses()[5:] == free.responses()[5:]


def test_refuses_what_cannot_be_generated(llama: Policy) -> None:
    with pytest.raises(InputError, match="at least one token"):
        generate(llama, [[]], SamplingConfig(), generator=_seeded())
    with pytest.raises(InputError, match="do not fit the model's 128 positions"):
        generate(llama, PROMPTS, SamplingConfig(max_new_tokens=99), generator=_seeded())
    with pytest.raises(InputError, match="1 prefixes for 8 rows"):
        generate(llama, PROMPTS, SamplingConfig(num_samples=2), generator=_seeded(), prefixes=[[1]])


def test_lengths_vary_as_they_should(llama: Policy) -> None:
    samples: Samples = generate(llama, PROMPTS, SamplingConfig(num_samples=30, max_new_tokens=40), generator=_seeded())
    assert len(Counter(samples.lengths.tolist())) > 8

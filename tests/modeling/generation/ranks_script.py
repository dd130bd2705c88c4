"""What test_shared_engines.py runs on two ranks: engines that draw together while ZeRO moves the weights.

python ranks_script.py FOLDER RANK WORLD WHAT
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM

from components.contract.backends import Backends
from components.contract.job import Resources
from components.modeling.generation.choose import open_sampler
from components.modeling.generation.engine.follower import Follower
from components.modeling.generation.engine.shared import SharedSampler
from components.modeling.generation.generate import Samples
from components.modeling.generation.sampler import Sampler
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.ranks import Ranks, current_ranks
from components.modeling.training.build import build_trainer
from components.rl.batch.batch import Batch
from components.rl.step.scoring import frozen, score_tokens
from tests.modeling import decoder_models as models
from tests.modeling.generation.engines import FORGETFUL, GATED, NATIVE, engine_sampler
from tests.modeling.training.ranks_script import CONFIG, steps
from tests.rl.build import batch_of

UPDATES = 3
SIZES = ModelConfig(vocab_size=106, width=64, layers=2, heads=2, mlp_width=96, max_positions=256)
PROMPTS = models.token_lists([5, 9, 30, 1, 140], seed=1)
"""The first rank has two of them, the second one three."""
SAMPLING = SamplingConfig(num_samples=4, max_new_tokens=20)


def draw(sampler: Sampler, seed: int, prefixes: list[list[int]] | None = None) -> Samples:
    """Return responses to all prompts."""
    return sampler.sample(PROMPTS, SAMPLING, generator=torch.Generator().manual_seed(seed), prefixes=prefixes)


def gaps(samples: Samples, own: Tensor) -> list[float]:
    """Return for each prompt how far log-probabilities are from `own`, both [S, T]."""
    found = (samples.logprobs - own).abs().amax(1)
    return [float(found[samples.prompt_index == prompt].max()) for prompt in range(len(PROMPTS))]


def by_transformers(policy: Policy, samples: Samples, folder: Path) -> Tensor:
    """Return log-probabilities [S, T] by a forward pass of transformers for every response."""
    folder.mkdir(exist_ok=True)
    policy.export(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    found = torch.zeros(samples.tokens.shape)
    with torch.no_grad():
        for row, response in enumerate(samples.responses()):
            prompt = PROMPTS[int(samples.prompt_index[row])]
            found[row, : len(response)] = models.response_logprobs(model, prompt, response)
    return found


def follow(policy: Policy, sampler: Sampler, backends: Backends, folder: Path) -> list[dict[str, Any]]:
    """Train, and after every update look at the log-probabilities before and after the sampler has its weights."""
    trainer = build_trainer(policy, CONFIG, total_steps=UPDATES, backends=backends)
    rows = []
    for update in range(UPDATES):
        steps(trainer, update, update + 1)
        with trainer.whole():
            before = draw(sampler, update)
        sampler.load_weights(gather=trainer.gather)
        with trainer.whole():
            after = draw(sampler, update)
            assert before.policy_logprobs is not None and after.policy_logprobs is not None
            rows.append(
                {
                    "before": gaps(before, before.policy_logprobs),
                    "after": gaps(after, after.policy_logprobs),
                    "transformers": gaps(after, by_transformers(policy, after, folder)),
                    "tokens": after.tokens.tolist(),
                }
            )
    return rows


def policy() -> Policy:
    """Return a small policy whose distribution is far from uniform, and whose matrices ZeRO cuts."""
    made = new_policy(SIZES, tokenizer=None, seed=0)
    with torch.no_grad():
        for _, weight in made.trainable():
            weight.add_(0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(9)))
    return made


def engines(ranks: Ranks, folder: Path) -> dict[str, Any]:
    """Follow engines of these tests, one of which forgets updates on the second rank."""
    found: dict[str, Any] = {}
    for name, engine, backends in (
        ("zero-2", NATIVE, zero(2)),
        ("zero-3", NATIVE, zero(3)),
        ("fsdp", NATIVE, Backends(trainer="fsdp")),
        ("forgetful", FORGETFUL if ranks.index else NATIVE, zero(2)),
    ):
        trained = policy()
        with SharedSampler(engine_sampler(trained, engine), ranks) as sampler:
            sampler.load_weights()
            found[name] = follow(trained, sampler, backends, folder / f"{name}-{ranks.index}")
    found["held"] = {"zero-3": held_at_once(zero(3)), "fsdp": held_at_once(Backends(trainer="fsdp"))}
    found["one"] = one_engine(ranks)
    return found | {"begin": begun(ranks), "gated": gated(ranks, folder), "scores": shared_scores()}


def one_engine(ranks: Ranks) -> list[dict[str, Any]]:
    """Follow an engine on the first rank that draws for both, while layers stay sharded."""
    trained = policy()
    inner = engine_sampler(trained, NATIVE) if ranks.first else Follower(trained)
    opening = [[7, 8]] * (len(PROMPTS) * SAMPLING.num_samples)
    with SharedSampler(inner, ranks, per_engine=2) as sampler:
        trainer = build_trainer(trained, CONFIG, total_steps=UPDATES, backends=Backends(trainer="fsdp", gather="layer"))
        rows = []
        for update in range(UPDATES):
            steps(trainer, update, update + 1)
            sampler.load_weights(gather=trainer.gather)
            after = trainer.roll_out(partial(draw, sampler, update))
            forced = trainer.roll_out(partial(draw, sampler, update, prefixes=opening))
            assert after.policy_logprobs is not None
            rows.append(
                {
                    "after": gaps(after, after.policy_logprobs),
                    "tokens": after.tokens.tolist(),
                    "opened": forced.tokens[:, :2].unique(dim=0).tolist(),
                }
            )
    return rows


def zero(stage: int) -> Backends:
    """Return DeepSpeed at a stage."""
    return Backends(trainer="deepspeed", zero_stage=stage)


def held_at_once(backends: Backends) -> int:
    """Return how many layers a rank holds whole at most while weights are handed over."""
    trained = policy()
    trainer = build_trainer(trained, CONFIG, total_steps=UPDATES, backends=backends)
    steps(trainer, 0, 1)
    matrices = [layer.down for layer in trained.layers()]
    most = 0
    for _ in trained.named_weights(trainer.gather):
        now = [layer._parameters["down"] for layer in trained.layers()]
        # FSDP puts a whole weight in the place of the sharded one, ZeRO fills the sharded one.
        away = [_is_away(p, own) for p, own in zip(now, matrices, strict=True)]
        most = max(most, len(away) - sum(away))
    return most


def _is_away(weight: Tensor, own: Tensor) -> bool:
    return isinstance(weight, DTensor) or (weight is own and weight.data.numel() < SIZES.width * SIZES.mlp_width)


def begun(ranks: Ranks) -> bool:
    """Return whether what is begun, and scored afterwards, is what is drawn."""
    with SharedSampler(engine_sampler(policy(), NATIVE), ranks) as sampler:
        drawing = sampler.begin(PROMPTS, SAMPLING, generator=torch.Generator().manual_seed(4))
        began, drawn = sampler.scored(PROMPTS, drawing.samples(), temperature=1.0), draw(sampler, 4)
    assert began.policy_logprobs is not None and drawn.policy_logprobs is not None
    close = torch.allclose(began.policy_logprobs, drawn.policy_logprobs, atol=1e-5)
    close = close and torch.allclose(began.entropies, drawn.entropies, atol=1e-5)
    return close and torch.equal(began.tokens, drawn.tokens) and torch.equal(began.prompt_index, drawn.prompt_index)


def shared_scores() -> dict[str, float]:
    """Return how far scores that ranks share are from those of one pass, and which share is this rank's."""
    batch = batch_of([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [[3, 9], [5, 1], [20, 2]])
    model, own = policy(), []

    def score(part: Batch) -> Tensor:
        own.append(part.num_tokens)
        return score_tokens(model, part, temperature=0.7).logprobs

    with torch.no_grad():
        alone = score_tokens(model, batch, temperature=0.7).logprobs
    difference = float((frozen(batch, score, max_tokens=999) - alone).abs().max())
    return {"difference": difference, "share": sum(own) / batch.num_tokens, "passes": len(own)}


def gated(ranks: Ranks, folder: Path) -> list[list[int]]:
    """Begin a draw whose engines wait at a gate, open it afterwards, and return the responses."""
    gate = folder / f"gate-{ranks.index}"
    os.mkfifo(gate)
    with SharedSampler(engine_sampler(policy(), GATED, gate=str(gate)), ranks) as sampler:
        generator = torch.Generator().manual_seed(0)
        drawing = sampler.begin([[5, 6], [7]], SamplingConfig(num_samples=2), generator=generator)
        with gate.open("wb"):
            return drawing.samples().responses()


def vllm(ranks: Ranks, folder: Path) -> dict[str, Any]:
    """Follow vLLM as a stage has it, with weights that no rank has whole."""
    trained = policy()
    resources = Resources(sampler="vllm", trainer="deepspeed", zero_stage=3, processes=ranks.count)
    with open_sampler(trained, resources) as sampler:
        sampler.load_weights()
        return {"vllm": follow(trained, sampler, zero(3), folder / f"vllm-{ranks.index}")}


def main() -> None:
    """Run everything and let each rank write its own findings down."""
    folder, rank, world, what = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    found = {"engines": engines, "vllm": vllm}[what](current_ranks(), folder)
    (folder / f"found-{rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

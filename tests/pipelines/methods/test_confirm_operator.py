"""A record of a small RL recipe whose reward is a file: a comment in it is confirmed, another formula is not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.toy_command import toy_command

pytestmark = pytest.mark.slow
RECIPE = """
name: brief
seed: 1
matrix:
  seed: [3]
  arm:
    method: {rewards: [verifier, ./brevity.py:brevity]}
    baseline: {rewards: [verifier, {name: ./brevity.py:brevity, weight: 0}]}
defaults: {pool: cpu}
stages:
  corpus:
    uses: curate
    matrix: none
    with:
      kind: demonstrations
      size: 24
      sources:
        - domain: words
          source: &words {name: rules, shown: false, accepts: [{rules: [reverse]}]}
          demonstrators: [{demonstrator: {name: rule, rule: reverse}}]
  base:
    uses: pretrain
    matrix: none
    in: {dataset: corpus.dataset}
    with: {steps: 6, batch_size: 4, architecture: {width: 16, layers: 1, heads: 2, mlp_width: 32}}
  data: {uses: curate, matrix: none, with: {size: 24, sources: [{domain: words, source: *words}]}}
  rl:
    uses: rl
    in: {model: base.model, dataset: data.dataset}
    with:
      steps: 3
      prompts_per_step: 4
      group_size: 4
      max_new_tokens: 8
      save_every: 0
      rewards: "${matrix.arm.rewards}"
hallmark:
  claim: Whoever is rewarded for it writes less
  outcome: {name: entropy, value: rl.entropy, direction: lower, floor: 0.1, floor_from: a guess}
  secondary: {gradient: {value: rl.grad_norm@mean}}
  budget: rl.num_tokens
system: {paper: "Doe 2025, Brief, arXiv:2501.00001", summary: Brief}
"""
REWARD = '''"""A reward of one's own."""


def brevity(completions, **kwargs):
    """Return less for longer responses."""
    return [-0.01 * len(text) for text in completions]
'''


def test_a_comment_in_an_operators_file_is_confirmed_and_a_formula_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "methods"
    folder.mkdir()
    (folder / "brief.yaml").write_text(RECIPE, encoding="utf-8")
    reward, kept = folder / "brevity.py", folder / "results" / "brief.json"
    reward.write_text(REWARD, encoding="utf-8")
    command = toy_command(tmp_path / "store")

    def posttrain(*arguments: str) -> subprocess.CompletedProcess[str]:
        return command("reproduce", "brief", *arguments, variables={"POSTTRAIN_RECIPES": str(tmp_path)})

    made = posttrain("--record", "--seeds", "1", "--json")
    assert made.returncode == 0, made.stderr
    effect = json.loads(made.stdout)["claims"]["outcome"]["effects"]
    assert len(effect) == 1 and effect[0] != 0, "the reward changes what is learnt"
    before = kept.read_bytes()

    reward.write_text(REWARD.replace("own.", "own, in another hand."), encoding="utf-8")
    assert posttrain("--check").returncode == 1
    done = posttrain("--confirm")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "brief: confirmed, 8 numbers of seed 3 are as recorded\n"
    assert posttrain("--check").returncode == 0
    after = json.loads(kept.read_text(encoding="utf-8"))
    assert after["claims"] == json.loads(before)["claims"] and after["confirmed"]["seeds"] == [3]

    before = kept.read_bytes()
    reward.write_text(REWARD.replace("len(text)", "len(text) ** 2"), encoding="utf-8")
    other = posttrain("--confirm")
    assert other.returncode == 1 and kept.read_bytes() == before
    assert "secondary.gradient: method" in other.stdout and "baseline" not in other.stdout
    assert "run it again with --record" in other.stderr

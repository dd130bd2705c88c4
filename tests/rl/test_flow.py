"""What operators hand to one another is declared, and checked where the recipe is read: nothing has been sampled."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import ValidationError

from components.contract.errors import InputError
from components.contract.operators import config_of
from components.contract.registry import operators
from components.rl.configs import AdvantageConfig, RewardConfig, SlotConfig
from components.rl.labels import LABELS
from components.rl.params import RLParams
from components.rl.slots import AFTER, step_slots
from pipelines.recipe.recipe import load_recipe

RECIPE = """
name: flow
summary: Reads a mark
stages:
  base: {uses: pretrain, in: {dataset: corpus.dataset}, with: {}}
  corpus: {uses: curate, with: {kind: corpus, size: 1, sources: [{source: {name: reasoning_gym, task: chain_sum}}]}}
  prompts: {uses: curate, with: {size: 1, sources: [{source: {name: reasoning_gym, task: chain_sum}}]}}
  rl:
    uses: rl
    in: {model: base.model, dataset: prompts.dataset}
    with:
      method: grpo
      objective:
        name: elastic_clip
"""


class MarksConfig(SlotConfig):
    """Marks rows."""

    writes: ClassVar[frozenset[str]] = frozenset({"toy_s"})


class ReadsConfig(AdvantageConfig):
    """Reads marks."""

    reads: ClassVar[frozenset[str]] = frozenset({"toy_s"})


class MarkingRewardConfig(RewardConfig):
    """Cannot mark anything."""

    writes: ClassVar[frozenset[str]] = frozenset({"toy_s"})


class EarlyConfig(SlotConfig):
    """Reads what is filled later."""

    reads: ClassVar[frozenset[str]] = frozenset({"reference_logprobs"})


def toy_marks(*arguments: object, config: MarksConfig) -> None:
    """Mark."""


def toy_reads(*arguments: object, config: ReadsConfig) -> None:
    """Read."""


def toy_marking_reward(*arguments: object, config: MarkingRewardConfig) -> None:
    """Mark where nothing can be marked."""


def toy_early(*arguments: object, config: EarlyConfig) -> None:
    """Read too early."""


@pytest.fixture(autouse=True)
def _toys() -> None:
    for slot, name in (
        ("rollout", "toy_marks"),
        ("annotate", "toy_marks"),
        ("advantage", "toy_reads"),
        ("advantage", "toy_marks"),
        ("reward", "toy_marking_reward"),
        ("filter", "toy_early"),
    ):
        operators(slot).add(name, f"{__name__}:{name}", origin="test")


@pytest.mark.parametrize(
    "given",
    [
        {"annotate": ["toy_marks"], "advantages": ["toy_reads"]},
        {"rollout": "toy_marks", "advantages": ["toy_reads"]},
        {"advantages": ["toy_marks", "toy_reads"]},
        {"method": "rover"},
        {"method": "etr", "guidance": "demonstrations"},
    ],
)
def test_a_mark_that_is_written_before_may_be_read(given: dict[str, object]) -> None:
    RLParams.model_validate(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"advantages": ["toy_reads"]},
            "which no operator before it writes; add rollout operator 'toy_marks' or",
        ),
        ({"advantages": ["toy_reads", "toy_marks"]}, "'toy_s', which advantage operator 'toy_marks' writes after it"),
        (
            {"rollout": "toy_marks", "guidance": "critical_pairs", "advantages": ["toy_reads"]},
            "'toy_s', which rollout operator 'toy_marks' writes after it, or one between them drops",
        ),
        ({"rewards": ["toy_marking_reward"]}, "cannot write toy_s: it returns no batch"),
        (
            {"filters": ["toy_early"], "reference": "initial"},
            "reads 'reference_logprobs', which is filled behind it",
        ),
        (
            {"filters": ["toy_early"], "reference": "none", "regularizers": []},
            "toy_early compares with a reference",
        ),
        ({"advantages": ["gae"]}, "gae reads a critic's values, but critic is 'none'"),
        (
            {"method": "lp-reg", "annotate": []},
            "reads 'proxy_logprob_n'.* add annotate operator 'min_p_proxy'",
        ),
    ],
)
def test_a_mark_that_is_not_there_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RLParams.model_validate(given)


def test_a_phase_must_fit_too() -> None:
    phases = [{"name": "a", "steps": 1}, {"name": "b", "steps": 1, "slots": {"objective": "elastic_clip"}}]
    with pytest.raises(ValidationError, match="elastic_clip' reads 'pass_rate_s'"):
        RLParams.model_validate({"method": "grpo", "phases": phases})


def test_a_recipe_is_refused_at_the_line_of_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(RECIPE.lstrip())
    with pytest.raises(InputError) as caught:
        load_recipe(str(path))
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{path}:13:15: stage 'rl', with.objective: rl: objective operator 'elastic_clip' reads")
    path.write_text(
        RECIPE.lstrip().replace("elastic_clip", "ppo_clip").replace("grpo", "grpo\n      advantages: [pass_rates]")
    )
    with pytest.raises(InputError) as caught:
        load_recipe(str(path))
    (line,) = str(caught.value).splitlines()
    assert f"{path}:12:20: unknown advantage operator 'pass_rates'; it is an operator of slot annotate" in line


def test_what_a_config_said_before_is_refused_with_what_to_write() -> None:
    with pytest.raises(InputError, match=r"needs_values is gone; write reads = frozenset\(\{'values'\}\)"):
        type("Old", (SlotConfig,), {"needs_values": True, "__annotations__": {"needs_values": ClassVar[bool]}})


def _marks_in(path: Path) -> tuple[set[str], set[str]]:
    """Return the marks that a module's text reads and writes."""
    reads, writes = set(), set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Subscript(value=ast.Attribute(attr="extras"), slice=ast.Constant(value=str(name))):
                reads.add(name)
            case ast.Call(func=ast.Attribute(attr="with_extras")):
                writes |= {keyword.arg or "**" for keyword in node.keywords}
    return reads, writes


def test_operators_of_this_tree_declare_exactly_the_marks_that_their_code_reads_and_writes() -> None:
    declared = 0
    for slot in step_slots().values():
        registry = operators(slot)
        for name in registry.names():
            if not (origin := registry.entry(name).origin).startswith("components/"):
                continue
            config = config_of(registry.get(name), name)
            reads, writes = _marks_in(Path(__file__).parents[2] / origin)
            if not issubclass(config, SlotConfig):
                assert not reads and not writes, origin
                continue
            given = {"reference_logprobs", "values", AFTER} | LABELS  # fields; AFTER is `scores.after`
            marks = config.reads - given | config.takes
            assert reads == marks, origin
            assert writes == config.writes or (writes == {"**"} and config.writes), origin
            declared += bool(marks) + bool(config.writes)
    assert declared >= 9

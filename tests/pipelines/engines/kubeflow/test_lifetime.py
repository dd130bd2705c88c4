"""How long a run may take and is kept: by hand, and in the compiled file."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from components.contract.errors import InputError
from pipelines.engines.kubeflow.compiler.lifetime import Lifetime
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.engines.kubeflow.examples import POOLS, compiled

TEXT = """\
name: limited
stages:
  data: {uses: curate, timeout: 1h, retries: 1, backoff: 10s}
  tuned: {uses: sft, in: {model: "hf:a/b", dataset: data.dataset}, timeout: 2h, retries: 0, approve: {timeout: 1d}}
  other: {uses: curate, timeout: 1m, retries: 0}
"""
STARTING = 6 * 3600 + 1800


@pytest.fixture
def recipe(toy_catalog: None, cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recipe whose stages all have limits."""
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))
    (tmp_path / "limited.yaml").write_text(TEXT)
    return tmp_path / "limited.yaml"


def test_a_run_has_the_time_of_its_longest_path(recipe: Path) -> None:
    data, tuned = 2 * (3600 + STARTING) + 10, 7200 + STARTING + 86_400
    assert Lifetime.of(load_recipe(str(recipe)), {}) == Lifetime(3 * 86_400, data + tuned + 86_400)


def test_a_stage_without_a_limit_leaves_the_run_without(recipe: Path) -> None:
    assert Lifetime.of(load_recipe(str(recipe), ["stages.other.timeout=null"]), {}).deadline is None
    environ = {"POSTTRAIN_KUBEFLOW_KEEP": "12h", "POSTTRAIN_KUBEFLOW_DEADLINE": "14d"}
    assert Lifetime.of(load_recipe(str(recipe)), environ) == Lifetime(43_200, 14 * 86_400)


@pytest.mark.parametrize("text", ["soon", "-1h", "0", "9999d", "1e99d"])
def test_what_is_no_duration_is_said(recipe: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"POSTTRAIN_KUBEFLOW_KEEP=.*expected a duration"):
        Lifetime.of(load_recipe(str(recipe)), {"POSTTRAIN_KUBEFLOW_KEEP": text})


def test_the_compiled_file_says_both(recipe: Path) -> None:
    documents = list(yaml.load_all(compiled(recipe), yaml.CSafeLoader))
    config = documents[1]["platforms"]["kubernetes"]["pipelineConfig"]
    limit = Lifetime.of(load_recipe(str(recipe)), {}).deadline
    assert config == {"resourceTtlOnCompletion": 3 * 86_400, "activeDeadlineSeconds": limit}

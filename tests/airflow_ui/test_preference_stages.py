"""Recipes of preferences, reward models and merging, triggered from Airflow's form and watched to their end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from pipelines.engines.airflow.client import Account
from pipelines.recipe.recipe import load_recipe
from tests.airflow_ui.browser import GLIDE_MILLISECONDS, ended, show_graph

CHANGED = {
    "dpo": {"base_steps": 60, "dpo_steps": 10, "prompt_rows": 128, "eval_rows": 64},
    "rlhf": {"base_steps": 300, "rl_steps": 12, "reward_steps": 20, "pair_prompts": 96, "eval_rows": 32},
    "merged": {"base_steps": 100, "sft_steps": 20, "corpus_rows": 4000, "dev_rows": 16, "eval_rows": 16},
}
"""What the person changes in each recipe's form, so that a run takes few minutes."""
SAYS = {
    "dpo": ("preference", r"done\s.*accuracy"),
    "rlhf": ("reward_model", r"done\s.*accuracy"),
    "merged": ("ties", r"done\s"),
}
"""A stage of each recipe, and what its log says."""


@pytest.mark.parametrize("name", CHANGED)
def test_a_recipe_runs_from_its_form(page: Page, airflow: Account, screenshots: Path, name: str) -> None:
    page.set_viewport_size({"width": 1600, "height": 1000})
    page.goto(f"{airflow.url}/dags/{name}")
    page.get_by_test_id("trigger-dag-button").click()
    form = page.get_by_role("dialog")
    for parameter, value in CHANGED[name].items():
        form.locator(f"[name=element_{parameter}]").fill(str(value))
        form.locator(f"[name=element_{parameter}]").press("Tab")
    page.screenshot(path=screenshots / f"{name}-form.png")
    page.get_by_test_id("trigger-dag-submit").click()
    page.wait_for_url(re.compile(rf"/dags/{name}/runs/manual__"), wait_until="commit")
    run_url = page.url.rstrip("/")
    states = ended(page, run_url)
    show_graph(page, run_url)
    page.wait_for_timeout(GLIDE_MILLISECONDS)
    page.screenshot(path=screenshots / f"{name}-graph.png")
    page.set_viewport_size({"width": 1600, "height": 1000})
    page.goto(f"{run_url}/tasks/{SAYS[name][0]}")
    page.get_by_test_id("grid-view-button").click()
    page.wait_for_timeout(GLIDE_MILLISECONDS)
    page.screenshot(path=screenshots / f"{name}-log.png")
    stages = {stage.name for stage in load_recipe(name).stages}
    assert states == dict.fromkeys(["", "run.plan", *stages, "run.report"], "success")
    expect(page.get_by_text(re.compile(SAYS[name][1])).first).to_be_visible()

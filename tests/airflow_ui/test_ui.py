"""Quickstart, triggered from Airflow's own form by a person with a browser, and watched to its end.

POSTTRAIN_SCREENSHOTS names a folder that the pictures go to.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from components.rl.presets import preset_names
from pipelines.engines.airflow.catalog import shown_recipes
from pipelines.engines.airflow.client import Account
from pipelines.engines.airflow.docs import display_name
from pipelines.recipe.recipe import load_recipe
from tests.airflow_ui.browser import GLIDE_MILLISECONDS, ended, show_graph
from tests.support.live_airflow import Live

RL_STEPS = 30
"""The one parameter that the person changes."""


@pytest.fixture(scope="module")
def run_url(page: Page, airflow: Account, screenshots: Path) -> str:
    """The page of a run that the form has started with one changed parameter."""
    page.goto(f"{airflow.url}/dags/quickstart")
    page.get_by_test_id("trigger-dag-button").click()
    form = page.get_by_role("dialog")
    field = form.locator("[name=element_rl_steps]")
    field.wait_for()
    shown = {
        parameter.name: form.locator(f"[name=element_{parameter.name}]").input_value()
        for parameter in load_recipe("quickstart").parameters
    }
    assert shown == {name: str(value) for name, value in load_recipe("quickstart").params.items()}
    for parameter in load_recipe("quickstart").parameters:
        expect(form.get_by_text(parameter.words.title).first).to_be_visible()
    field.fill(str(RL_STEPS))
    field.press("Tab")
    page.screenshot(path=screenshots / "form.png")
    page.get_by_test_id("trigger-dag-submit").click()
    page.wait_for_url(re.compile(r"/dags/quickstart/runs/manual__"))
    return page.url.rstrip("/")


@pytest.fixture(scope="module")
def states(page: Page, run_url: str) -> dict[str, str]:
    """State of every task of the run, once it has ended."""
    return ended(page, run_url)


def test_the_list_has_recipes_with_their_summaries_and_kinds(page: Page, airflow: Account, screenshots: Path) -> None:
    page.goto(f"{airflow.url}/dags")
    expect(page.get_by_text(f"{len(shown_recipes())} Dags")).to_be_visible()
    expect(page.get_by_text(display_name("quickstart", load_recipe("quickstart"))).first).to_be_visible()
    expect(page.get_by_text("kind:recipe").first).to_be_visible()
    expect(page.get_by_text("methods.grpo")).to_have_count(0)
    page.screenshot(path=screenshots / "list.png")


def test_methods_are_a_list_to_choose_from(page: Page, airflow: Account, screenshots: Path) -> None:
    page.goto(f"{airflow.url}/dags/quickstart")
    page.get_by_test_id("trigger-dag-button").click()
    form = page.get_by_role("dialog")
    form.locator("[name=element_rl_steps]").wait_for()
    form.get_by_role("combobox").last.click()
    expect(page.get_by_role("option", name="dapo", exact=True)).to_be_visible()
    assert page.get_by_role("option").count() == len(preset_names())
    page.screenshot(path=screenshots / "methods.png")


def test_before_a_run_only_registered_models_are_assets(page: Page, airflow: Account, screenshots: Path) -> None:
    page.goto(f"{airflow.url}/assets")
    for name in ("quickstart@candidate", "quickstart@champion", "conversations@candidate"):
        expect(page.get_by_text(name)).to_be_visible()
    expect(page.get_by_text("3 Assets")).to_be_visible()
    page.screenshot(path=screenshots / "assets.png")


def test_the_run_succeeds(states: dict[str, str]) -> None:
    stages = {stage.name for stage in load_recipe("quickstart").stages}
    assert states == dict.fromkeys(["", "run.plan", *stages, "run.report"], "success")


def test_the_graph_shows_every_stage(page: Page, run_url: str, states: dict[str, str], screenshots: Path) -> None:
    show_graph(page, run_url)
    graph = page.locator(".react-flow__nodes")
    for stage in load_recipe("quickstart").stages:
        expect(graph.get_by_text(stage.name, exact=True).first).to_be_visible()
    page.wait_for_timeout(GLIDE_MILLISECONDS)
    page.screenshot(path=screenshots / "graph.png")


def test_a_log_says_how_the_stage_went(page: Page, run_url: str, states: dict[str, str], screenshots: Path) -> None:
    page.set_viewport_size({"width": 1600, "height": 1000})
    page.goto(f"{run_url}/tasks/rl")
    page.get_by_test_id("grid-view-button").click()
    page.wait_for_timeout(GLIDE_MILLISECONDS)
    for text in (rf"running\s+\d+/{RL_STEPS}", r"done\s.*entropy", r"model\s+Model\s+[0-9a-f]{32}"):
        expect(page.get_by_text(re.compile(text)).first).to_be_visible()
    page.screenshot(path=screenshots / "log.png")


def test_the_docs_of_a_stage_say_what_it_does(page: Page, airflow: Account, screenshots: Path) -> None:
    page.goto(f"{airflow.url}/dags/quickstart/tasks/rl")
    page.get_by_test_id("markdown-button").click()
    expect(page.get_by_text("group_size").first).to_be_visible()
    page.wait_for_timeout(GLIDE_MILLISECONDS)
    page.screenshot(path=screenshots / "docs.png")


def test_what_the_run_made_is_an_asset_then(
    page: Page, airflow: Account, states: dict[str, str], screenshots: Path
) -> None:
    page.goto(f"{airflow.url}/assets?name_pattern=quickstart/rl.model")
    expect(page.get_by_text("quickstart/rl.model")).to_be_visible()
    page.screenshot(path=screenshots / "assets_after.png")


def test_the_local_engine_makes_the_same_bytes(folder: Path, live: Live, states: dict[str, str]) -> None:
    changed = ["--set", f"rl_steps={RL_STEPS}"]
    own = live.local(folder / "store", "quickstart", "--new", *changed)
    other = live.local(folder / "other" / "store", "quickstart", *changed)
    assert {stage["cache"] for stage in own["stages"]} == {"hit"}  # all was made by Airflow
    assert {stage["cache"] for stage in other["stages"]} == {"miss"}
    assert _digests(own) == _digests(other)


def _digests(shown: Any) -> dict[str, dict[str, str]]:
    return {
        stage["name"]: {port: output["digest"] for port, output in stage["outputs"].items()}
        for stage in shown["stages"]
    }

"""The browser of these tests, Debian's chromium, and what a person does in it more than once."""

from __future__ import annotations

import shutil
import time
from typing import Any

from playwright.sync_api import Page

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PAGE_MILLISECONDS = 180_000
API_MILLISECONDS = 180_000
"""Stages use every core, and the API server waits for one, too."""
GLIDE_MILLISECONDS = 2000
"""What a graph or a dialog takes to come to its place."""
RUN_SECONDS = 3600.0
POLL_SECONDS = 5.0


def show_graph(page: Page, run_url: str) -> None:
    """Open a run's page with the whole graph in view."""
    page.set_viewport_size({"width": 2000, "height": 760})
    page.goto(run_url)
    page.get_by_role("button", name="Show Graph").click()
    page.get_by_role("button", name="Collapse Details Panel").click()
    page.get_by_role("button", name="Fit View").click()


def ended(page: Page, run_url: str) -> dict[str, str]:
    """Wait for the end of a run; return its state under "" and that of every task under its name."""
    address, _, rest = run_url.partition("/dags/")
    dag, _, run = rest.partition("/runs/")
    api = f"{address}/api/v2/dags/{dag}/dagRuns/{run}"
    deadline = time.monotonic() + RUN_SECONDS
    while (state := _get(page, api)["state"]) in ("queued", "running"):
        assert time.monotonic() < deadline, f"still {state} after {RUN_SECONDS:.0f} s"
        page.wait_for_timeout(1000 * POLL_SECONDS)
    tasks = _get(page, f"{api}/taskInstances?limit=100")["task_instances"]
    return {"": state, **{task["task_id"]: task["state"] for task in tasks}}


def _get(page: Page, url: str) -> Any:
    """Ask the API as the logged-in person."""
    answer = page.request.get(url, timeout=API_MILLISECONDS)
    assert answer.ok, f"{url}: {answer.status} {answer.text()}"
    return answer.json()

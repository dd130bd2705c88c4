"""An Airflow of the tests' own and a person's browser that is logged in to it.

POSTTRAIN_SCREENSHOTS names a folder that the pictures go to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from pipelines.engines.airflow.client import Account
from pipelines.engines.airflow.deployment import Deployment
from tests.airflow_ui.browser import CHROMIUM, FLAGS, PAGE_MILLISECONDS
from tests.support.live_airflow import Live


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the store and all that lies beside it."""
    return tmp_path_factory.mktemp("ui")


@pytest.fixture(scope="module")
def live(folder: Path) -> Iterator[Live]:
    """An Airflow that has never run anything."""
    airflow = Live(folder, {**os.environ, "POSTTRAIN_STORE": str(folder / "store")})
    airflow.start()
    yield airflow
    assert airflow.stop() == 0


@pytest.fixture(scope="module")
def airflow(live: Live) -> Account:
    """Where it answers, and for whom."""
    return Account.read(Deployment(live.folder / "airflow"), {})


@pytest.fixture(scope="module")
def screenshots(folder: Path) -> Path:
    """The folder for pictures."""
    path = Path(os.environ.get("POSTTRAIN_SCREENSHOTS") or folder / "screenshots").absolute()
    path.mkdir(parents=True, exist_ok=True)
    print(f"screenshots: {path}")
    return path


@pytest.fixture(scope="module")
def page(airflow: Account) -> Iterator[Page]:
    """A browser's page, logged in."""
    assert CHROMIUM, "this test needs Debian's browser: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.set_default_timeout(PAGE_MILLISECONDS)
        expect.set_options(timeout=PAGE_MILLISECONDS)
        page.goto(airflow.url)
        page.locator("input[name=username]").fill(airflow.user)
        page.locator("input[name=password]").fill(airflow.password)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Dags").first.wait_for()
        yield page
        browser.close()

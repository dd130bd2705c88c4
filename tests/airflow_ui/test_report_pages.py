"""Report pages in a real browser: axe finds nothing wrong, on a phone and a desktop, light and dark.

POSTTRAIN_SCREENSHOTS names a folder that the pictures go to.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from pipelines.engines.shared.launcher import stage_python
from tests.airflow_ui.browser import CHROMIUM, FLAGS

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser: apt-get install chromium")
ROOT = Path(__file__).parents[2]
KINDS = ("chain", "matrix", "rounds", "several", "methods")
WIDTHS = {"phone": 390, "desktop": 1280}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a page of each kind, made where the stages' libraries are."""
    folder = tmp_path_factory.mktemp("pages")
    command = [stage_python(), "-m", "tests.pipelines.report.pages", str(folder)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=WIDTHS)
def page(browser: Browser, scheme: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    size = {"width": WIDTHS[request.param], "height": 900}
    page = browser.new_page(viewport=size, color_scheme="dark" if scheme == "dark" else "light")
    yield page
    page.close()


@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing_wrong(pages: Path, page: Page, kind: str, scheme: str) -> None:
    page.goto((pages / f"{kind}.html").as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    if folder := os.environ.get("POSTTRAIN_SCREENSHOTS"):
        width = (page.viewport_size or {})["width"]
        page.screenshot(path=Path(folder) / f"report-{kind}-{width}-{scheme}.png", full_page=True)
    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()
    room = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert room[0] <= room[1], "only tables and graphs scroll sideways, the page itself does not"


def test_a_digest_is_copied_whole(pages: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.goto((pages / "chain.html").as_uri())
    digest = page.locator("code.digest", has_text="ef" * 6).first
    assert digest.get_attribute("title") == "ef" * 32
    selected = digest.evaluate("one => { getSelection().selectAllChildren(one); return getSelection().toString() }")
    assert selected == "ef" * 32 and digest.bounding_box()["width"] < 150

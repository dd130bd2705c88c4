"""The site: built without a warning, whole without a network, the guides as GitHub shows them; served, and as files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest

from components.contract.errors import InputError, PosttrainError
from pipelines.cli import main
from pipelines.docs import site
from pipelines.docs.guides import ROOT, place
from pipelines.docs.site import MARK, build_into, cached
from tests.support.guides import texts, tokens

pytestmark = pytest.mark.skipif(find_spec("material") is None, reason="mkdocs is not installed: make docs-site")
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}


class Page(HTMLParser):
    """A page's links, anchors, what it fetches, and how often the elements of its article occur."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.fetched: list[str] = []
        self.elements: Counter[str] = Counter()
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.inside = self.inside or tag == "article"
        if self.inside:
            self.elements[tag] += 1
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.fetched.append(given.get("href", ""))
        if tag in FETCHED and FETCHED[tag] in given:
            self.fetched.append(given[FETCHED[tag]])

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "article"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this tree; a link or an anchor that leads nowhere would end the build."""
    return cached(tmp_path_factory.mktemp("cache") / "docs", strict=True)


@pytest.fixture(scope="module")
def pages(built: Path) -> dict[Path, Page]:
    found = {path: Page(path.read_text(encoding="utf-8")) for path in built.rglob("*.html")}
    assert len(found) > 60
    return found


def test_every_link_of_every_page_leads_to_a_file_and_an_anchor(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for link in page.links:
            if "://" in link or link.startswith("javascript:"):
                continue
            file, _, anchor = unquote(link).partition("#")
            target = Path(os.path.normpath(path.parent / file)) if file else path
            if path.name == "404.html":
                continue
            assert target.is_file(), f"{path}: {link}"
            if anchor and target in pages:
                assert anchor in pages[target].anchors, f"{path}: {link}"


def test_no_page_fetches_anything_from_another_machine(built: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert [address for address in page.fetched if "//" in address] == [], path
    styles = [*built.rglob("*.css")]
    assert len(styles) >= 3
    for style in styles:
        assert "url(http" not in style.read_text(encoding="utf-8").replace('"', ""), style


def test_guides_look_as_they_do_on_github(built: Path, pages: dict[Path, Page]) -> None:
    """mkdocs reads another dialect of Markdown: a list without an empty line before it would become text."""
    counted = {"bullet_list_open": "ul", "ordered_list_open": "ol", "list_item_open": "li", "image": "img"}
    counted |= {"table_open": "table", "fence": "pre", "code_block": "pre"}
    for path, text in texts().items():
        wanted = Counter(counted[token.type] for token in tokens(text) if token.type in counted)
        shown = pages[built / Path(place(path)).with_suffix(".html")].elements
        assert {name: shown[name] for name in wanted} == dict(wanted), path


def test_search_knows_the_guides_and_not_the_code(built: Path) -> None:
    index = (built / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "Your own data in five minutes" in index
    assert "source/" not in index


def test_a_link_that_leads_nowhere_ends_a_strict_build(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# A\n\n[there](#nowhere)\n")
    with pytest.raises(PosttrainError, match="not built"):
        build_into(tmp_path / "site", tmp_path, strict=True)
    assert not (tmp_path / "site").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


def test_links_to_files_folders_and_what_is_not_there(tmp_path: Path) -> None:
    room = tmp_path / "components" / "room"
    room.mkdir(parents=True)
    (room / "__init__.py").write_text('"""What <b>is</b> here."""\n')
    (room / "page.py").write_text('"""A page."""\nTEXT = "````"\n')
    links = "[`code`](components/room/page.py), [a *room*](components/room), [gone](nowhere.md), `[x](y.md)`."
    (tmp_path / "README.md").write_text(f"# Top\n\n{links}\n")
    build_into(tmp_path / "site", tmp_path, strict=True)
    home = (tmp_path / "site" / "index.html").read_text()
    assert 'href="source/components/room/page.py.html"' in home
    assert "[x](y.md)" in home
    assert "nowhere.md" not in home
    assert "gone" in home
    assert "A page." in (tmp_path / "site" / "source" / "components" / "room" / "index.html").read_text()


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert main(["docs", "--build", str(tmp_path)]) == 2
    assert "holds other files" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    assert main(["docs", "--build", str(tmp_path / "thesis.txt")]) == 2


def test_a_site_of_ours_is_replaced_whole_and_a_cached_one_is_taken(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    readme = tmp_path / "tree" / "README.md"
    readme.write_text("# One\n")
    first = cached(tmp_path / "cache", tmp_path / "tree")
    made = (first / MARK).stat().st_mtime_ns
    assert cached(tmp_path / "cache", tmp_path / "tree") == first
    assert (first / MARK).stat().st_mtime_ns == made
    readme.write_text("# Two\n")
    assert cached(tmp_path / "cache", tmp_path / "tree") != first
    (first / "left.html").write_text("over")
    build_into(first, tmp_path / "tree")
    assert "Two" in (first / "index.html").read_text()
    assert not (first / "left.html").exists()


def test_without_mkdocs_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(site, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="mkdocs and mkdocs-material not installed: make docs-site"):
        build_into(tmp_path / "site")


def test_the_command_prints_its_address_last_and_serves_until_it_is_stopped(built: Path) -> None:
    command = [sys.executable, "-m", "pipelines.cli", "docs"]
    environment = {**os.environ, "POSTTRAIN_CACHE": str(built.parents[1])}
    server = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        address = line.split()[1]
        assert line.startswith("docs: http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert b"Declare a multistage" in answer.read()
        for missing in ("assets/", "../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(address + missing, timeout=60)
    finally:
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=60)
    assert (server.returncode, out) == (130, "")
    assert "Traceback" not in err


def test_an_installed_package_has_a_home_and_links_only_to_what_came_along(tmp_path: Path) -> None:
    folder = tmp_path / "pipelines" / "docs"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# Guides\n\n[Words](words.md), [the tree's](../../README.md).\n")
    (folder / "words.md").write_text("# Words\n\n[Guides](README.md#guides)\n")
    build_into(tmp_path / "site", tmp_path, strict=True)
    home = (tmp_path / "site" / "index.html").read_text()
    assert 'href="pipelines/docs/words.html"' in home
    assert "README.md" not in home
    assert 'href="../../index.html#guides"' in (tmp_path / "site" / "pipelines" / "docs" / "words.html").read_text()

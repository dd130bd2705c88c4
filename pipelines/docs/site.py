"""The site of the guides: built by mkdocs with its theme Material, and whole without a network."""

from __future__ import annotations

import hashlib
import io
import logging
import shutil
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from components.contract.errors import InputError, PosttrainError
from pipelines.docs.guides import ROOT
from pipelines.docs.staging import Stage

THEME = Path(__file__).parent / "theme"
NEEDED = ("mkdocs", "mkdocs-material")
MARK = ".posttrain-docs"
"""A file in every built site: a folder with it may be replaced, no other may."""
KEEP_SECONDS = 86400.0


def build_into(folder: Path, root: Path = ROOT, *, strict: bool = False) -> None:
    """Build the site as `folder`, whole or not at all.

    Raises:
        InputError: mkdocs is missing, or the folder holds something that is not such a site.
        PosttrainError: with `strict`, a link or an anchor leads nowhere.
    """
    require_mkdocs()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise InputError(f"{folder}: holds other files; name a new or empty folder, or one that this command made")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".posttrain-docs-", dir=folder.parent) as temporary:
        new, old = Path(temporary) / "site", Path(temporary) / "old"
        _build(new, Path(temporary) / "pages", root, strict=strict)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)


def cached(cache: Path, root: Path = ROOT, *, strict: bool = False) -> Path:
    """Return the folder in `cache` with the site of these guides, built unless it is there."""
    require_mkdocs()
    with tempfile.TemporaryDirectory(prefix="posttrain-docs-") as temporary:
        Stage(Path(temporary), root).write()
        folder = cache / _digest(Path(temporary))
    if not (folder / MARK).is_file():
        build_into(folder, root, strict=strict)
        for other in cache.iterdir():
            if other != folder and time.time() - other.stat().st_mtime > KEEP_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
    return folder


def require_mkdocs() -> None:
    """Raise InputError, which says what to do, where mkdocs or its theme is not installed."""
    missing = [name for name, module in zip(NEEDED, ("mkdocs", "material"), strict=True) if find_spec(module) is None]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} not installed: make docs-site, or pip install 'posttrain[docs]'; "
            "the guides are also Markdown files, README.md leads to them"
        )


def _digest(pages: Path) -> str:
    """Return what the site depends on as a digest: pages, theme, this package's code and the builders' versions."""
    own = [path for path in (*Path(__file__).parent.glob("*.py"), *THEME.iterdir()) if path.is_file()]
    state = hashlib.sha256()
    for path in [*sorted(pages.rglob("*")), *sorted(own)]:
        if path.is_file():
            content = path.read_bytes()
            state.update(f"{path.name}\0{len(content)}\0".encode() + content)
    for name in NEEDED:
        try:
            state.update(version(name).encode())
        except PackageNotFoundError:  # it lies on the path without metadata
            state.update(b"?")
    return state.hexdigest()[:16]


def _build(site: Path, pages: Path, root: Path, *, strict: bool) -> None:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config
    from mkdocs.exceptions import MkDocsException

    for logger in ("mkdocs", "mkdocs.material"):
        logging.getLogger(logger).setLevel(logging.WARNING)
    pages.mkdir()
    nav = Stage(pages, root).write()
    for path in THEME.iterdir():
        shutil.copyfile(path, pages / path.name)
    try:
        config = load_config(
            io.BytesIO(b"site_name: posttrain\n"),
            config_file_path=str(pages.parent / "mkdocs.yml"),
            docs_dir=str(pages),
            site_dir=str(site),
            nav=nav,
            strict=strict,
            **settings(),
        )
        build(config)
    except (MkDocsException, SystemExit) as error:
        raise PosttrainError(f"the site was not built: {error}") from error
    (site / MARK).touch()


def settings() -> dict[str, Any]:
    """Return what mkdocs is told beside its folders; nothing in it names another machine."""
    from pymdownx.slugs import slugify

    palettes = [
        {
            "media": f"(prefers-color-scheme: {mode})",
            "scheme": scheme,
            "primary": "custom",
            "accent": "custom",
            "toggle": {"icon": f"material/{icon}", "name": f"Switch to {other} colours"},
        }
        for mode, other, scheme, icon in (
            ("light", "dark", "default", "weather-night"),
            ("dark", "light", "slate", "weather-sunny"),
        )
    ]
    return {
        "use_directory_urls": False,  # pages open from a folder, too
        "theme": {
            "name": "material",
            "font": False,  # a font of the web would be fetched whenever a page is opened
            "palette": palettes,
            "icon": {"logo": "material/source-branch"},
            "features": [
                *("navigation.tabs", "navigation.footer", "toc.follow"),
                *("search.suggest", "search.highlight", "content.code.copy"),
            ],
        },
        "plugins": [{"material/search": {}}, {"material/offline": {}}],
        "extra": {"generator": False, "homepage": "index.html", "polyfills": ["iframe-worker.js"]},
        "extra_css": ["extra.css"],
        "markdown_extensions": [
            *("tables", "sane_lists", "attr_list"),
            {"toc": {"permalink": True, "slugify": slugify(case="lower"), "toc_depth": "2-3"}},
            {"pymdownx.highlight": {"linenums_style": "pymdownx-inline"}},
            "pymdownx.superfences",
        ],
        "validation": {
            "nav": {"omitted_files": "info", "not_found": "warn"},
            "links": {"not_found": "warn", "anchors": "warn", "absolute_links": "warn", "unrecognized_links": "warn"},
        },
    }

"""The guides and what they link to, laid out for mkdocs: every link leads to a page of the site."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from posixpath import join, normpath, relpath

from pipelines.docs.guides import GUIDES, HOME, ROOT, guides, place, sections, title
from pipelines.docs.sources import PICTURES, file_page, folder_page, place_of_source

CODE = re.compile(r"^(?P<fence>`{3,})[^\n]*\n.*?^(?P=fence)[ \t]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<target>[^()\s]+)\)")
OUTSIDE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


class Stage:
    """A tree's guides in a folder that mkdocs reads."""

    def __init__(self, target: Path, root: Path = ROOT) -> None:
        self.root, self.target = root, target
        self.paths = guides(root)
        self.places = {path: place(path) for path in self.paths}
        if "README.md" not in self.places:  # an installed package: the list of guides is its home
            self.places[f"{GUIDES}/README.md"] = HOME

    def write(self) -> list[dict[str, list[dict[str, str]]]]:
        """Write all pages and pictures; return the site's navigation, as mkdocs takes it."""
        texts = {path: (self.root / path).read_text(encoding="utf-8") for path in self.paths}
        for path, text in texts.items():
            self._put(self.places[path], self.linked(text, path))
        return [
            {name: [{self._title(path, texts[path], name): self.places[path]} for path in members]}
            for name, members in sections(self.paths)
        ]

    def _title(self, path: str, text: str, section: str) -> str:
        return "Home" if self.places[path] == HOME else title(text, section)

    def linked(self, text: str, path: str) -> str:
        """Return a guide's text with the links that lead to pages of the site; code is left as it is."""
        kept: list[str] = []

        def hide(found: re.Match[str]) -> str:
            kept.append(found[0])
            return f"\0{len(kept) - 1}\0"

        hidden = CODE.sub(hide, text)
        changed = LINK.sub(lambda found: self._link(found, path), hidden)
        return re.sub("\0(\\d+)\0", lambda found: kept[int(found[1])], changed)

    def _link(self, found: re.Match[str], path: str) -> str:
        text, target = found["text"], found["target"]
        if OUTSIDE.match(target) or target.startswith("#"):
            return found[0]
        file, hash_, anchor = target.partition("#")
        wanted = normpath(join(path.rpartition("/")[0], file))
        if (place := self._place(wanted)) is None:
            return text
        return f"[{text}]({relpath(place, self.places[path].rpartition('/')[0] or '.')}{hash_}{anchor})"

    def _place(self, wanted: str) -> str | None:
        """Return where the file or folder `wanted` of the tree stands, and put it there; None if it is not here."""
        real = self.root / wanted
        if wanted.startswith("..") or not real.exists():
            return None
        if real.is_dir() and f"{wanted}/README.md" in self.places:
            return self.places[f"{wanted}/README.md"]
        if wanted in self.places:
            return self.places[wanted]
        place = self.places[wanted] = place_of_source(wanted, folder=real.is_dir())
        if wanted.endswith(PICTURES):
            (self.target / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(real, self.target / place)
        else:
            self._put(place, folder_page(self.root, wanted) if real.is_dir() else file_page(self.root, wanted))
        return place

    def _put(self, place: str, text: str) -> None:
        file = self.target / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

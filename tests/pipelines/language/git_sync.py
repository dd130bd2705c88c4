"""What git-sync does with a repository: a folder for each commit, and a link that is renamed to the newest."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


class GitSync:
    """A bare repository with commits of a test's own, synchronised as git-sync 4 does."""

    def __init__(self, folder: Path) -> None:
        self.bare, self._work, self.root = folder / "origin.git", folder / "work", folder / "git"
        self.link = self.root / "current"
        self.commits: list[str] = []
        self.root.mkdir()
        self._git(folder, "init", "-q", "--bare", str(self.bare))
        self._git(folder, "clone", "-q", str(self.bare), str(self._work))
        self._git(self.root, "clone", "-q", "--bare", str(self.bare), str(self.root / ".repo"))

    def commit(self, files: Mapping[str, str]) -> str:
        """Commit files and push them; check the commit out as git-sync does, and return its hash."""
        for name, text in files.items():
            (self._work / name).parent.mkdir(parents=True, exist_ok=True)
            (self._work / name).write_text(text)
        self._git(self._work, "add", "-A")
        self._git(self._work, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "recipes")
        self._git(self._work, "push", "-q", "origin", "HEAD:main")
        self.commits.append(self._git(self._work, "rev-parse", "HEAD"))
        repo = self.root / ".repo"
        self._git(repo, "fetch", "-q", str(self.bare), "main")
        place = self.root / ".worktrees" / self.commits[-1]
        self._git(repo, "worktree", "add", "-q", "--detach", str(place), self.commits[-1])
        return self.commits[-1]

    def move_to(self, commit: str) -> None:
        """Make the link lead to a commit, atomically."""
        new = self.root / "new-link"
        new.symlink_to(Path(".worktrees") / commit)
        new.replace(self.link)

    @staticmethod
    def _git(folder: Path, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

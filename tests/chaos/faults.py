"""The kinds of fault, each tried many times: `python -m tests.chaos.faults` prints the table of the store's README."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.project import STAGES, STEPS, Project, change, copied, newest

TRUNCATED = 6
TRIES = 20
KINDS = {
    "file of an artifact": "objects/*/files/*",
    "manifest of an artifact": "objects/*/manifest.json",
    "action": "actions/*.json",
    "producer": "producers/*/*.json",
    "ledger: run": "ledger/*/run.json",
    "ledger: end": "ledger/*/end.json",
    "ledger: stage": "ledger/*/stages/*.json",
    "plan": "plans/*.json",
    "registered version": "models/*/0*.json",
    "alias": "models/*/aliases/*.json",
    "lineage event": "spool/**/*.json",
    "newest partial checkpoint": "partial/*/0*/manifest.json",
}
NEEDED = "newest partial checkpoint"


def pieces_of(manifest: Path) -> list[Path]:
    """Return the files of a partial checkpoint."""
    names = [entry["sha256"] for entry in json.loads(manifest.read_bytes())["files"]]
    return [manifest.parent.with_name("pieces") / name for name in names]


@dataclass
class Outcome:
    """How the tries of one kind of fault ended."""

    kind: str
    tries: int = 0
    survived: int = 0
    notes: list[str] = field(default_factory=list)

    def note(self, problem: str | None) -> None:
        """Count one try; `problem` says why it was not survived."""
        self.tries += 1
        self.survived += problem is None
        if problem:
            self.notes.append(problem)


class Chaos:
    """A straight run to compare with, and stores that were killed in the middle to damage copies of."""

    def __init__(self, folder: Path, *, kills: int, seed: int = 5) -> None:
        self.project, self.chance, self.folder = Project(folder / "project"), random.Random(seed), folder
        self.whole = folder / "whole" / "store"
        answer = self.project.run(str(self.whole))
        assert answer.code == 0, answer.err
        (self.run_id,) = [path.name for path in (self.whole / "ledger").iterdir()]
        self.straight = self.project.outputs(str(self.whole), self.run_id)
        places = [(stage, step) for stage in STAGES for step in range(1, STEPS + 1)]
        self.killed = [self._killed(*place) for place in self.chance.sample(places, kills)]

    def _killed(self, stage: str, step: int) -> Path:
        store = self.folder / f"killed-{stage}-{step}" / "store"
        self.project.kill_at(str(store), stage, step)
        return store

    def truncations(self, tries: int = TRIES) -> Outcome:
        """Cut the newest six files of a store at random lengths; the same command goes on, once."""
        outcome = Outcome("the newest six files truncated")
        for number in range(tries):
            source = [*self.killed, self.whole][number % (len(self.killed) + 1)]
            store = copied(source, self.folder / "try" / "store")
            for path in newest(store, TRUNCATED):
                data = path.read_bytes()
                change(path, data[: self.chance.randrange(len(data))] if data else b"")
            (run_id,) = [path.name for path in (store / "ledger").iterdir()]
            outcome.note(self._problem(str(store), run_id, goes_on=source != self.whole))
        return outcome

    def flips(self, tries: int = TRIES) -> Iterator[Outcome]:
        """Flip one bit in a file of each kind; the same command makes what it needs anew, and verify finds the rest."""
        for kind, pattern in KINDS.items():
            outcome = Outcome(f"one bit flipped: {kind}")
            for number in range(tries):
                source = self.killed[number % len(self.killed)] if kind == NEEDED else self.whole
                store = copied(source, self.folder / "try" / "store")
                files = sorted(path for path in store.glob(pattern) if path.is_file())
                if kind == NEEDED:  # the one before it is a fallback, and goes unread with the others at the end
                    files = [files[-1], *pieces_of(files[-1])]
                path = self.chance.choice(files)
                data = bytearray(path.read_bytes())
                data[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
                change(path, bytes(data))
                (run_id,) = [path.name for path in (store / "ledger").iterdir()]
                outcome.note(self._problem(str(store), run_id, flipped=path.relative_to(store).as_posix()))
            yield outcome

    def _problem(self, store: str, run_id: str, *, goes_on: bool = False, flipped: str = "") -> str | None:
        """Run the same command once, then verify and repair; return what is not as in the straight run."""
        answer = self.project.run(store)
        if answer.code != 0:
            return f"{flipped} run: exit code {answer.code}: {(answer.err or answer.out).strip()[-600:]}"
        first = self.project.call(store, "verify")
        told = "set aside" in answer.out + answer.err or first.code == 1
        if flipped and not told:
            return f"{flipped}: nobody told of it"
        if first.code:
            self.project.call(store, "verify", "--repair")
        again = self.project.call(store, "verify")
        if again.code:
            return f"{flipped} verify after repair: {again.out[-600:]}"
        latest = self.project.outputs(store, "latest")
        if latest != self.straight:
            return f"{flipped}: other digests: {latest}"
        if goes_on and len(list((Path(store) / "ledger").iterdir())) != 1:
            return "it did not go on with the run"
        return None


def main() -> int:
    """Try everything and print the table; the exit code is 1 if something was not survived."""
    tries = int(sys.argv[1]) if len(sys.argv) > 1 else TRIES
    os.environ["POSTTRAIN_LINEAGE"] = "later"
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        chaos = Chaos(Path(folder), kills=6)
        print("| fault | tries | survived |\n| --- | ---: | ---: |")
        for outcome in (chaos.truncations(tries), *chaos.flips(tries)):
            print(f"| {outcome.kind} | {outcome.tries} | {outcome.survived} |", flush=True)
            bad += outcome.tries - outcome.survived
            for note in outcome.notes:
                print(note, file=sys.stderr)
    return int(bad > 0)


if __name__ == "__main__":
    import tests.chaos.registered  # noqa: F401 - for the commands that run here

    sys.exit(main())

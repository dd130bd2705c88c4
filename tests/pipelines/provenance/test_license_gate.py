"""The licence gate in runs: what only a read source, a fetched model or an earlier run tells."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from components.runtime.ledger.ledger import load_run
from components.runtime.store import open_store
from pipelines.cli import main
from tests.pipelines.provenance.conftest import HOSTILE, Tiny

SOURCE = """
from components.tasks.source import SourceRequest, SourceRow, SourceRows

def rows(request: SourceRequest) -> SourceRows:
    made = (SourceRow(f"here:{n}", prompt=f"say {n}", answer=str(n)) for n in range(20))
    return SourceRows(made, {"source": "mine", "name": "mine", "license": LICENSE})
"""
ROWS = "name: {name}\nlicenses: {rule}\nstages:\n  rows:\n    uses: curate\n    with:\n      kind: demonstrations\n"
OWN = "      sources: [{domain: own, source: {name: './mine.py:rows'}}]\n"


class Home:
    """A folder with recipes and a store."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "store"

    def run(self, name: str, text: str) -> int:
        (self.folder / f"{name}.yaml").write_text(text)
        return main(["run", str(self.folder / f"{name}.yaml"), "--store", str(self.store), "--json"])

    def failures(self, recipe: str) -> dict[str, str]:
        store = open_store(str(self.store))
        ids = [path.name for path in (self.store / "ledger").iterdir() if path.name.startswith(recipe)]
        return load_run(store, max(ids)).failed


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("POSTTRAIN_LINEAGE", "later")
    return Home(tmp_path)


def _own(home: Home, license: object) -> None:
    (home.folder / "mine.py").write_text(SOURCE.replace("LICENSE", repr(license)))


def test_a_source_that_states_its_licence_when_it_is_read_is_refused_at_the_end(home: Home, capsys) -> None:
    _own(home, "CC-BY-NC-4.0")
    rule = "{refuse: [cc-by-nc-*]}"
    assert home.run("own", ROWS.format(name="own", rule=rule) + OWN) == 1
    told = home.failures("own")["rows"]
    assert told == ("stage 'rows': licence gate: source mine.py:rows is under CC-BY-NC-4.0, which 'cc-by-nc-*' refuses")
    declared = "{refuse: [cc-by-nc-*], declared: {own: ours}}"
    assert home.run("own", ROWS.format(name="own", rule=declared) + OWN) == 0


def test_a_cached_result_passes_the_gate_of_the_recipe_that_reuses_it(home: Home) -> None:
    _own(home, "cc-by-nc-4.0")
    assert home.run("own", ROWS.format(name="own", rule="{}") + OWN) == 0
    assert home.run("own", ROWS.format(name="own", rule="{refuse: [cc-by-nc-4.0]}") + OWN) == 1
    assert "licence gate" in home.failures("own")["rows"]
    assert home.run("own", ROWS.format(name="own", rule="{refuse: [gpl-3.0]}") + OWN) == 0


@pytest.mark.parametrize("license", [None, 7, HOSTILE])
def test_what_states_nothing_or_nonsense_is_unknown_or_refused_by_name(home: Home, license, capsys) -> None:
    _own(home, license)
    assert home.run("own", ROWS.format(name="own", rule="{unknown: refuse, refuse: ['*evil*']}") + OWN) == 1
    told = home.failures("own")["rows"]
    assert ("states no licence" in told) is not isinstance(license, str)
    main(["show", "own", "--store", str(home.store)])
    assert not {char for char in capsys.readouterr().out if not char.isprintable() and char != "\n"}


@pytest.mark.parametrize(
    "card",
    ["---\nlicense: llama3\n---\n# A model\n", "---\r\nlicense: [mit, llama3]\r\n---\r\n", None],
    ids=["text", "list", "config"],
)
def test_a_model_that_states_a_refused_licence_is_refused_before_anything_is_spent(
    first_run: Tiny, home: Home, card: str | None
) -> None:
    run = load_run(first_run.store, first_run.run_id)
    model = home.folder / "model"
    shutil.copytree(first_run.store.fetch(run.stages["base"]["outputs"]["model"]["digest"]), model)
    for path in (model, *model.rglob("*")):
        path.chmod(0o755)
    if card is not None:
        (model / "README.md").write_bytes(card.encode())
    else:
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps(config | {"license": "llama3"}))
    text = (
        ROWS.format(name="own", rule="{refuse: [llama*]}")
        + "      sources: [{domain: a, count: 20, source: {name: rules, accepts: [{rules: [reverse]}]}}]\n"
        + "  more: {uses: sft, in: {model: ./model, dataset: rows.dataset}, with: {steps: 1}}\n"
    )
    assert home.run("own", text.replace("steps: 1", "steps: 1, max_tokens: 2")) == 1  # it would fail if it ran
    assert "is under llama3, which 'llama*' refuses" in home.failures("own")["more"]
    assert home.run("own", text.replace("[llama*]", "[gpl-3.0]")) == 0


def test_a_licence_travels_with_a_registered_model_into_the_next_recipe(home: Home, first_run: Tiny) -> None:
    rows = [{"question": f"{n} + 1?", "answer": f"so #### {n + 1}"} for n in range(30)]
    (home.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = "{name: published, set: gsm8k, path: rows.jsonl, license: cc-by-nc-4.0, verifier: numeric}"
    first = (
        ROWS.format(name="first", rule="{}")
        + f"      sources: [{{domain: maths, source: {source}}}]\n"
        + "  base: {uses: pretrain, in: {dataset: rows.dataset}, register: maths,\n"
        + "    with: {steps: 1, batch_size: 8, architecture: {width: 32, layers: 1, heads: 2, mlp_width: 64}}}\n"
    )
    assert home.run("first", first) == 0
    later = (
        ROWS.format(name="later", rule="{refuse: [cc-by-nc-4.0]}")
        + "      sources: [{domain: a, count: 20, source: {name: rules, accepts: [{rules: [reverse]}]}}]\n"
        + "  more: {uses: sft, in: {model: 'models:/maths@candidate', dataset: rows.dataset}, with: {steps: 1}}\n"
    )
    assert home.run("later", later) == 1
    told = home.failures("later")["more"]
    assert "input model models:/maths@candidate: behind it, source gsm8k is under cc-by-nc-4.0" in told
    assert home.run("later", later.replace("[cc-by-nc-4.0]", "[gpl-3.0]")) == 0

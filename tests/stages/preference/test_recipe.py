"""The preference stage in recipes: what validate refuses with a line, and what a plan knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.cli import main
from tests.stages.supervised_data import base_model
from tests.support.stage_context import write_jsonl

STAGE = """
name: mine
stages:
  learn:
    uses: preference
    in: {{model: ./model, dataset: ./pairs{more}}}
    with: {{{settings}}}
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTTRAIN_STORE", str(tmp_path / "store"))
    write_jsonl(tmp_path / "pairs", [{"prompt": "?", "chosen": "a", "rejected": "b"}])
    base_model(tmp_path / "model")


def validated(capsys: pytest.CaptureFixture[str], settings: str, more: str = "") -> tuple[int, list[str]]:
    Path("mine.yaml").write_text(STAGE.format(settings=settings, more=more))
    code = main(["validate", "mine.yaml"])
    done = capsys.readouterr()
    return code, (done.out + done.err).splitlines()


@pytest.mark.parametrize("settings", ["", "preference_loss: simpo, steps: 3", "preference_loss: {name: rpo, eta: 0.1}"])
def test_a_stage_of_it_is_valid(settings: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = validated(capsys, settings)
    assert (code, lines) == (0, ["mine: valid, 1 stage"])
    code, _ = validated(capsys, "preference_loss: ipo", ", reference: ./model")
    assert code == 0


@pytest.mark.parametrize(
    ("settings", "more", "told"),
    [
        ("preference_loss: dop", "", "unknown preference_loss operator 'dop'; did you mean 'dpo'"),
        ("preference_loss: {name: dpo, bta: 1}", "", "bta"),
        ("preference_loss: {name: dpo, label_smoothing: 0.7}", "", "got 0.7, expected a number less than 0.5"),
        ("preference_loss: kto, batch_size: 1", "", "estimates a divergence from other rows of the batch"),
        ("preference_loss: orpo", ", reference: ./model", "input 'reference'"),
        ("bad_rows: ignore", "", "got 'ignore', expected one of refuse, drop"),
        ("", ", refrence: ./model", "did you mean 'reference'"),
    ],
)
def test_what_does_not_fit_is_one_problem_with_its_line(
    settings: str, more: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = validated(capsys, settings, more)
    assert code == 2
    problems = [line for line in lines if "mine.yaml:" in line]
    assert len(problems) == 1
    assert told in " ".join(lines)

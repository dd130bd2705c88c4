"""posttrain new and try, what validate knows of files, and operators by their name alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.recipe.recipe import load_recipe
from pipelines.templates.new import TEMPLATES
from tests.support.one_tensor import write_one_tensor


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTTRAIN_STORE", str(tmp_path / "store"))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    done = capsys.readouterr()
    return code, done.out, done.err


def rows(name: str, *found: object) -> None:
    Path(name).write_text("".join(f"{json.dumps(row)}\n" for row in found))


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_a_new_recipe_has_its_own_name_and_is_valid(template: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "new", "mine", "--from", template)
    assert code == 0
    assert out.partition("next:")[2].count("posttrain ") == 3
    assert load_recipe("mine/recipe.yaml").name == "mine"
    assert run(capsys, "validate", "mine/recipe.yaml")[0] == 0
    Path("mine/recipe.yaml").write_text("changed")
    code, _, err = run(capsys, "new", "mine", "--from", template)
    assert (code, Path("mine/recipe.yaml").read_text()) == (2, "changed")
    assert "there already" in err
    assert [path.name for path in Path().iterdir()] == ["mine"], "nothing half-written stays"


@pytest.mark.parametrize("name", ["Mine", "a b", "../x/..", "no/such/folder", "x" * 80, "a\x1b[31m"])
def test_a_name_that_no_recipe_can_have_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "new", name)
    assert code == 2
    assert "\x1b" not in err
    assert not list(Path().iterdir())


@pytest.mark.parametrize("scale", ["tiny", "full"])
def test_gsm8k_is_planned_without_files_or_network(scale: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "plan", "gsm8k", "--set", f"scale={scale}", "--json")
    assert code == 0
    found = json.loads(out)
    assert {stage["pool"] for stage in found["stages"]} == ({"cpu"} if scale == "tiny" else {"cpu", "h100x8", "h100x1"})
    assert ("tiny-base" in {stage["name"] for stage in found["stages"]}) == (scale == "tiny")


def test_a_parameter_holds_at_either_scale(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = load_recipe("gsm8k", ["scale=tiny", "rl_steps=7"])
    assert next(stage.params["steps"] for stage in recipe.stages if stage.name == "rl") == 7


def test_a_verifier_is_tried_on_answers_and_wrong_ones(capsys: pytest.CaptureFixture[str]) -> None:
    rows("rows.jsonl", {"prompt": "1+1?", "answer": "2"}, {"prompt": "\x1b[2Jhostile", "answer": "5"})
    code, out, _ = run(capsys, "try", "numeric", "--data", "rows.jsonl")
    assert code == 0
    assert "accepts 2 of 2 answers, refuses 2 of 2 wrong ones" in out
    assert "\x1b" not in out
    assert "rows.jsonl:2" in out


def test_a_verifier_that_accepts_everything_is_found_out(capsys: pytest.CaptureFixture[str]) -> None:
    rows("rows.jsonl", {"prompt": "1+1?", "answer": "2"})
    Path("check.py").write_text("def check(response, **columns):\n    print('\\x1b[31m' + response)\n    return True\n")
    code, out, _ = run(capsys, "try", "./check.py:check", "--data", "rows.jsonl")
    assert code == 1
    assert "accepts 1 of 1 answers, refuses 0 of 1 wrong ones" in out
    assert "\x1b" not in out


def test_a_reward_judges_given_completions_and_takes_columns(capsys: pytest.CaptureFixture[str]) -> None:
    rows("rows.jsonl", {"prompt": "p", "answer": "a", "said": "abc", "bonus": 2})
    Path("r.py").write_text("def r(completions, bonus, **columns):\n    return [len(completions[0]) + bonus[0]]\n")
    code, out, _ = run(capsys, "try", "r.py:r", "--data", "rows.jsonl", "--completions", "said", "--json")
    assert code == 0
    (found,) = json.loads(out)["rows"]
    assert (found["completion"], found["value"]) == ("abc", 5.0)
    assert "data: [bonus]" in run(capsys, "try", "r.py:r", "--data", "rows.jsonl", "--completions", "said")[1]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    return [1.0]", "r.py:1"),
        ("    return 1 / 0", "r.py:2"),
        ("    return [float('nan')] * len(completions)", "r.py:1"),
    ],
)
def test_mistakes_of_a_reward_name_its_line(body: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows("rows.jsonl", {"prompt": "p", "answer": "a"})
    Path("r.py").write_text(f"def r(completions, **columns):\n{body}\n")
    code, out, err = run(capsys, "try", "./r.py:r", "--data", "rows.jsonl")
    assert code != 0
    assert said in err and "Traceback" not in out + err


def test_a_row_without_a_value_is_told_and_counts_as_none(capsys: pytest.CaptureFixture[str]) -> None:
    rows("rows.jsonl", {"prompt": "p", "answer": "a"}, {"prompt": "q", "answer": "b"})
    Path("r.py").write_text("def r(completions, **columns):\n    return [float('nan'), 0.0, 1.0, 0.0]\n")
    code, out, err = run(capsys, "try", "./r.py:r", "--data", "rows.jsonl")
    assert code == 0 and "returned nan" in out and not err
    assert "answers 1, wrong ones 0; more for the answer in 1 of 2 rows; fails on 1" in out


def test_rows_that_cannot_be_read_name_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows("rows.jsonl", {"prompt": "p", "answer": "a"}, {"question": "p", "answer": "a"})
    code, _, err = run(capsys, "try", "exact", "--data", "rows.jsonl")
    assert code == 2
    assert "rows.jsonl:2" in err and "--prompt" in err


SOURCE = """\
name: mine
stages:
  a:
    uses: curate
    with:
      sources:
        - domain: x
          count: 3
          source: {source}
"""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{name: jsonl, path: good.jsonl, verifier: llm_judge}", "unknown verifier operator 'llm_judge'"),
        ("{name: jsonl, path: question.jsonl}", "question.jsonl:1: no column 'prompt'"),
        ("{name: jsonl, path: empty.jsonl}", "empty.jsonl:17: the answer is empty (column 'answer')"),
        ("{name: jsonl, path: broken.jsonl}", "broken.jsonl:2: not a line of JSON"),
        ("{name: jsonl, path: good.jsonl, verifier: './check.py:check'}", "columns: {data: [tolerance]}"),
        ("{name: reasoning_gym, task: chain_sun}", "did you mean 'chain_sum'?"),
        ("{name: reasoning_gym, task: chain_sum, config: {min_term: 2}}", "did you mean 'min_terms'?"),
        ("{name: reasoning_gym, task: chain_sum, config: {min_terms: two}}", "expected a whole number"),
    ],
)
def test_sources_are_checked_before_the_run(source: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows("good.jsonl", {"prompt": "p", "answer": "a"})
    rows("empty.jsonl", *[{"prompt": f"p{line}", "answer": "" if line == 17 else "a"} for line in range(1, 21)])
    rows("question.jsonl", {"question": "p", "answer": "a"})
    Path("broken.jsonl").write_text('{"prompt": "p", "answer": "a"}\n{"prompt"\n')
    Path("check.py").write_text("raise SystemExit\ndef check(response, tolerance):\n    return True\n")
    Path("mine.yaml").write_text(SOURCE.format(source=source))
    code, _, err = run(capsys, "validate", "mine.yaml")
    assert code == 2
    assert err.startswith("mine.yaml:9:") and said in err


def test_data_that_is_not_there_is_said_first_and_refused_where_it_would_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("mine.yaml").write_text(SOURCE.format(source="{name: jsonl, path: rows.jsonl}"))
    code, out, _ = run(capsys, "validate", "mine.yaml")
    assert code == 0  # it may be there where the stages run
    head, note = out.splitlines()
    assert head.endswith("valid, 1 stage, but its data is not on this machine")
    assert note.startswith("note: a: mine.yaml:9:") and "rows.jsonl: no such file" in note
    code, _, err = run(capsys, "plan", "mine.yaml")
    assert code == 2 and err.startswith("mine.yaml:9:") and "rows.jsonl: no such file" in err


def test_a_folder_that_is_no_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    source = "{name: reasoning_gym, task: chain_sum}"
    stage = "  b:\n    uses: evaluate\n    in: {model: ./empty, dataset: a.dataset}\n"
    Path("mine.yaml").write_text(SOURCE.format(source=source) + stage)
    Path("empty").mkdir()
    code, _, err = run(capsys, "validate", "mine.yaml")
    assert code == 2
    assert "mine.yaml:12:" in err and "config.json and weights in .safetensors and a tokenizer" in err
    for name in ("tokenizer.json", "config.json"):
        (Path("empty") / name).write_text("{}")
    write_one_tensor(Path("empty") / "model.safetensors")
    assert run(capsys, "validate", "mine.yaml")[0] == 0


def test_an_operator_is_found_by_its_name_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "operators", "jsonl")[1].startswith("source operator jsonl:")
    assert run(capsys, "operators", "verifier")[1].startswith("slot verifier:")
    code, _, err = run(capsys, "operators", "jsnol")
    assert (code, "did you mean 'jsonl'?" in err) == (2, True)


def test_the_command_alone_shows_the_everyday_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    assert "posttrain new" in capsys.readouterr().out

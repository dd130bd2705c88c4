"""Operators' files in recipes: where they are looked for, what a mistake says; and reading a recipe runs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.operator_files.names import travel_name
from pipelines.language.problems import RecipeErrors
from pipelines.plan.plan import Plan, build_plan
from pipelines.recipe.recipe import Recipe, load_recipe

RECIPE = """\
name: mine
params: {reward: ./my_reward.py:brevity}
stages:
  data:
    uses: curate
    with:
      sources:
        - domain: own
          count: 8
          source: {name: jsonl, path: rows.jsonl, verifier: checks/check.py:check}
  rl:
    uses: rl
    in: {model: "hf:any/model", dataset: data.dataset}
    with:
      rewards:
        - "${params.reward}"
        - {name: ./my_reward.py:short, limit: 5}
      phases:
        - {name: only, steps: 2, slots: {filters: ["./my_reward.py:keep"]}}
"""
REWARD = """\
from components.rl.configs import RewardConfig

open("ran", "w")

class ShortConfig(RewardConfig):
    limit: int = 3

def brevity(completions, prompts, answer, **columns):
    return [-len(text) for text in completions]

def short(batch, context, *, config: ShortConfig):
    return [len(text) < config.limit for text in batch.texts]

def keep(batch, more, context):
    return batch
"""
CHECK = "def check(response, answer, **columns):\n    return response == answer\n"


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "recipes"
    (folder / "checks").mkdir(parents=True)
    (folder / "my_reward.py").write_text(REWARD)
    (folder / "checks" / "check.py").write_text(CHECK)
    (folder / "mine.yaml").write_text(RECIPE)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return folder / "mine.yaml"


def plan(recipe: Recipe) -> Plan:
    return build_plan(recipe, "store", "run")


def problems(path: Path, *overrides: str) -> list[str]:
    with pytest.raises(RecipeErrors) as caught:
        load_recipe(str(path), overrides)
    return [str(problem).replace(f"{path.parent}/", "") for problem in caught.value.problems]


def test_every_slot_takes_one_relative_to_the_recipe_and_the_job_brings_the_file(recipe: Path) -> None:
    loaded = load_recipe(str(recipe))
    data, rl = plan(loaded).jobs
    verifier = data.params["sources"][0]["source"]["verifier"]
    assert (name := travel_name(verifier)) and (name.file, name.function) == ("check.py", "check")
    assert [code.file for code in data.code] == ["check.py"]
    (code,) = rl.code
    assert code.files == {"my_reward.py": REWARD}
    assert rl.params["rewards"] == [code.name("brevity"), {"name": code.name("short"), "limit": 5}]
    assert rl.params["phases"][0]["slots"] == {"filters": [code.name("keep")]}
    assert not list(recipe.parents[1].rglob("ran")), "reading and planning run nothing"
    assert "code" not in load_and_dump("quickstart")


def load_and_dump(name: str) -> dict[str, object]:
    return plan(load_recipe(name)).jobs[0].model_dump(mode="json")


def test_the_plan_follows_the_content_and_not_the_place(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = plan(load_recipe(str(recipe))).digest
    monkeypatch.chdir(recipe.parent)
    assert plan(load_recipe("mine.yaml")).digest == before
    (recipe.parent / "my_reward.py").write_text(REWARD.replace("< config", "<= config"))
    edited = load_recipe("mine.yaml")
    assert plan(edited).digest != before
    assert edited.digest != load_recipe("mine.yaml", ["seed=1"]).digest


def test_what_set_names_is_relative_to_the_working_folder(recipe: Path) -> None:
    Path("other.py").write_text("def worth(completions, **columns): return completions\n")
    rl = plan(load_recipe(str(recipe), ["reward=./other.py:worth"])).jobs[1]
    assert sorted(code.file for code in rl.code) == ["my_reward.py", "other.py"]
    assert problems(recipe, "reward=./my_reward.py:brevity") == [
        "mine.yaml:16:11: my_reward.py: cannot be read: No such file or directory"
    ]


def test_a_parents_file_is_beside_the_parent(recipe: Path, tmp_path: Path) -> None:
    child = tmp_path / "child.yaml"
    child.write_text("name: child\nextends: ./recipes/mine.yaml\nstages: {rl: {with: {steps: 3, phases: null}}}\n")
    assert plan(load_recipe(str(child))).jobs[1].code[0].files == {"my_reward.py": REWARD}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("./my_reward.py:brevity}", "./my_rewrd.py:brevity}", "16:11: my_rewrd.py: cannot be read: No such file"),
        (
            "./my_reward.py:short",
            "./my_reward.py:shrt",
            "17:18: my_reward.py has no function 'shrt' at its top level; did you mean 'short'?",
        ),
        ("limit: 5", "limt: 5", "17:40: stage 'rl', with.rewards.1: unknown key 'limt'; did you mean 'limit'?"),
        ("limit: 5", "limit: many", "17:47: stage 'rl', with.rewards.1.limit: got 'many', expected a whole number"),
        ('"./my_reward.py:keep"', '"./my_reward.py:brevity"', "brevity does not fit the slot filter: expected (batch"),
        (
            "checks/check.py:check",
            "my_reward.py:keep",
            "keep does not fit the slot verifier: expected (response, answer",
        ),
        ("checks/check.py:check", "https://host/check.py:check", "is named by its path on this machine, not by an"),
        ("checks/check.py:check", "s3://bucket/check.py:check", "is named by its path on this machine, not by an"),
    ],
)
def test_a_mistake_has_the_recipes_line_and_what_was_meant(recipe: Path, old: str, new: str, said: str) -> None:
    assert old in RECIPE
    recipe.write_text(RECIPE.replace(old, new))
    (found,) = problems(recipe)
    assert found.startswith("mine.yaml:") and said in found


def test_a_file_that_is_no_python_has_its_own_line(recipe: Path) -> None:
    (recipe.parent / "my_reward.py").write_text("def brevity(completions:\n")
    assert "mine.yaml:16:11: my_reward.py:1: not Python: '(' was never closed" in problems(recipe)


def test_a_name_with_control_characters_reaches_no_terminal(recipe: Path) -> None:
    recipe.write_text(RECIPE.replace("./my_reward.py:short", '"./\\e]0;owned\\a.py:short"'))
    assert all(line.isprintable() for line in problems(recipe))


def test_a_link_is_read_as_what_it_leads_to_and_never_travels(recipe: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("not = 'python' at all\n")
    (recipe.parent / "link.py").symlink_to(secret)
    recipe.write_text(RECIPE.replace("./my_reward.py:short", "./link.py:short"))
    (found,) = problems(recipe)
    assert "link.py:1: not Python" in found
    assert "at all" not in found, "a file that is no Python is not shown"

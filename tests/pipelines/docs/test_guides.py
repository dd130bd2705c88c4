"""What guides show is so: links lead somewhere, commands parse, recipes are valid, messages are those of the code."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from posixpath import join, normpath

import pytest

from pipelines.cli.parser import build_parser
from pipelines.docs.guides import ROOT
from pipelines.language.problems import RecipeErrors
from pipelines.recipe.recipe import load_recipe
from tests.support.guides import anchors, blocks, inline_code, links, rows, texts

GUIDES = texts()
PARSER = build_parser()
NAMES = PARSER._subparsers._group_actions[0].choices  # type: ignore[union-attr]
COMMAND = re.compile(r"(?:\S+=\S+ +)*(?:\S*/)?posttrain +(?P<arguments>.+)")
MESSAGES = "pipelines/docs/troubleshooting.md"
PARENT = "extends: base-recipe"
"""Stands in the table of keys: there is no such recipe."""
OUTSIDE = re.compile(r"https?://|mailto:")


def test_the_readme_at_the_top_has_at_most_150_lines() -> None:
    assert len(GUIDES["README.md"].splitlines()) <= 150


def test_there_are_guides_of_every_kind() -> None:
    assert len(GUIDES) >= 30
    assert {"README.md", ".github/CONTRIBUTING.md", ".github/CHANGELOG.md", MESSAGES} <= set(GUIDES)


@pytest.mark.parametrize("path", GUIDES)
def test_every_link_leads_to_a_file_and_every_anchor_to_a_heading(path: str) -> None:
    for link in links(GUIDES[path]):
        if OUTSIDE.match(link):
            continue
        file, _, anchor = link.partition("#")
        target = normpath(join(path.rpartition("/")[0], file)) if file else path
        assert (ROOT / target).exists(), f"{path}: {link}"
        if anchor:
            assert anchor in anchors(GUIDES[target]), f"{path}: {link}"


def commands(text: str) -> list[str]:
    """Return the command lines of posttrain in a guide: those of code blocks, and those between backticks."""
    shown = [line for block in blocks(text, "", "sh", "bash") for line in block.replace("\\\n", " ").splitlines()]
    shown = [line.partition("  #")[0].partition(" # ")[0] for line in shown]
    parts = [part.strip() for line in [*shown, *inline_code(text)] for part in re.split(r";|&&| \| ", line)]
    return [part for part in parts if COMMAND.fullmatch(part)]


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return why the command line is refused; empty if it is not."""
    try:
        _, unknown = PARSER.parse_known_args(arguments)
    except SystemExit as stop:
        return "" if stop.code == 0 else capsys.readouterr().err
    return f"unknown: {unknown}" if unknown else ""


def test_every_command_line_parses(capsys: pytest.CaptureFixture[str]) -> None:
    seen = 0
    for path, text in GUIDES.items():
        for command in commands(text):
            found = COMMAND.fullmatch(command)
            assert found
            arguments = [part for part in shlex.split(found["arguments"]) if part != "..."]
            if not arguments:
                continue
            if len(arguments) == 1 and not arguments[0].startswith("-"):  # a command's name, in a sentence
                assert arguments[0] in NAMES, f"{path}: {command}"
                continue
            assert refusal(arguments, capsys) == "", f"{path}: {command}"
            seen += 1
    assert seen >= 80


def test_a_wrong_command_line_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    [command] = commands("Type `posttrain run quickstart --sett a=b` now.")
    assert refusal(shlex.split(command)[1:], capsys)
    assert commands("```\nposttrain plan x; posttrain run x   # then\n```") == ["posttrain plan x", "posttrain run x"]


def whole_recipes() -> list[tuple[str, str]]:
    shown = [(path, block) for path, text in GUIDES.items() for block in blocks(text, "yaml")]
    whole = re.compile(r"^stages:\n  [a-z]", re.MULTILINE)
    return [(path, block) for path, block in shown if whole.search(block) and PARENT not in block]


@pytest.mark.parametrize(("path", "recipe"), [pytest.param(*one, id=one[0]) for one in whole_recipes()])
def test_every_whole_recipe_is_valid(path: str, recipe: str, tmp_path: Path) -> None:
    for text in [*GUIDES.values(), GUIDES[path]]:  # files of the same name are those of the own guide
        for code in blocks(text, "python"):
            if name := re.match(r"# (\w+\.py)\n", code):
                (tmp_path / name[1]).write_text(code)
    for file in re.findall(r"path: (\S+\.jsonl)", recipe):
        row = {"prompt": "say ab", "answer": "ab", "completion": "ab", "level": 0}
        (tmp_path / file).write_text(f"{json.dumps(row)}\n" * 3)
    (tmp_path / "shown.yaml").write_text(recipe)
    try:
        assert load_recipe(str(tmp_path / "shown.yaml"), []).stages
    except RecipeErrors as error:
        pytest.fail(f"{path}: {error}")


def test_enough_whole_recipes_are_shown() -> None:
    assert len(whole_recipes()) >= 4


def test_the_messages_in_troubleshooting_are_those_of_the_code() -> None:
    files = [*ROOT.glob("components/**/*.py"), *ROOT.glob("pipelines/**/*.py"), ROOT / "Makefile"]
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    code = re.sub(r'"\s*\n\s*f?"', "", code)
    checked = 0
    for heading in re.findall(r"^## (.+)$", GUIDES[MESSAGES], re.MULTILINE):
        for first, *_ in rows(GUIDES[MESSAGES], heading):
            for part in re.findall(r"`([^`]+)`", first):
                assert part in code, part
                checked += 1
    assert checked >= 30

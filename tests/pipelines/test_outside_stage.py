"""A stage of an outside package: in lists, plan, run, end table and report, with no line about it in this tree."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.toy_command import Command, toy_command

RECIPE = "tests/pipelines/recipes/toy-exam.yaml"
HOSTILE = "<script>alert(1)</script>\"'&[red]{{ 7 * 7 }}"
SHOWN = "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;[red]{{ 7 * 7 }}"


@pytest.fixture(scope="module")
def posttrain(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """The command line with the toy package installed, and a store of the module's own."""
    return toy_command(tmp_path_factory.mktemp("exam") / "store")


def page_of(posttrain: Command, *changes: str) -> str:
    """Return the page of a run with some parameters."""
    done = posttrain("run", RECIPE, *(word for change in changes for word in ("--set", change)))
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(posttrain("report", "latest").stdout.strip()).read_text()


def section(page: str, title: str) -> str:
    """Return what stands below a title of the page, without the space between elements."""
    found = re.search(rf"<section id=[^>]*><h2>{re.escape(title)}</h2>(.*?)</section>", page, re.DOTALL)
    assert found, f"no section {title!r}"
    return re.sub(r">\s+<", "><", found[1]).strip()


def test_the_lists_name_it_with_its_role_and_package(posttrain: Command) -> None:
    listed = {item["name"]: item for item in json.loads(posttrain("components", "--json").stdout)}
    assert listed["toy-exam"] == {
        "name": "toy-exam",
        "role": "measuring",
        "summary": "Examine a number",
        "image": "cpu",
        "origin": "package posttrain-toy 1.0",
    }
    assert (listed["rl"]["role"], listed["toy-train"]["role"]) == ("training", "other")
    said = posttrain("components", "toy-exam").stdout
    assert said.startswith("toy-exam: Examine a number (measuring, image cpu)")
    assert "who sits the exam" in said and "mark_<subject>" in said


def test_plan_run_and_show(posttrain: Command) -> None:
    planned = json.loads(posttrain("plan", RECIPE, "--json").stdout)["stages"]
    assert [(stage["name"], stage["component"], stage["cached"]) for stage in planned][2:] == [
        ("exam-base", "toy-exam", False),
        ("exam", "toy-exam", False),
    ]
    done = posttrain("run", RECIPE)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("exam ") and " done " in line]
    assert line.endswith("mark_arts 3  mark_maths 1  effort 40"), "as the component declares them"
    start = next(place for place, line in enumerate(lines) if "mark in the final exam" in line)
    assert "95 % intervals over questions" in lines[start]
    body = " ".join(lines[start : start + 7])
    found = r"model\W+arts\W+maths\W+.*base\W+1\.0  \[0\.5, 1\.5\]\W+0\.0  \[-0\.5, 0\.5\]\W+train\W+3\.0  "
    assert re.search(found, body), body
    assert "held-out" not in done.stdout
    assert "mark_arts 3  mark_maths 1  effort 40" in posttrain("show", "latest").stdout
    again = json.loads(posttrain("plan", RECIPE, "--json").stdout)["stages"]
    assert {stage["cached"] for stage in again} == {True}


def test_every_kind_of_section_is_in_the_report(posttrain: Command) -> None:
    page = page_of(posttrain, "factor=20")
    marks = section(page, "Marks")
    assert "Mark in the final exam of each model, with 95 % intervals over questions. Lines join" in marks
    assert (
        "<th class=number>mark arts</th><th class=number>mark maths</th><th class=number>effort, joules</th>" in marks
    )
    row = ">train</td><td class=number>3.0 <small>[2.5, 3.5]</small></td><td class=number>1.0 <small>[0.5, 1.5]</small>"
    assert f"{row}</td><td class=number>40.00</td>" in marks
    assert section(page, "How the exams went").count("<figcaption>right answers so far</figcaption>") == 2
    profile = section(page, "Marks by length")
    assert [found for found in ("arts", "maths") if f"<figcaption>{found}</figcaption>" in profile] == ["arts", "maths"]
    assert profile.count('<path class="line ') == 2 + 4, "a key and two lines a model"
    papers = section(page, "Papers")
    assert papers.startswith("<p class=lead>Every paper was read twice.</p><h3>exam-base</h3>")
    assert "points at p.4, %" in papers and "<b>maths</b>" in papers and "well done; neat; short" in papers
    assert papers.count("<b>") == 3, "of four papers one was not passed"
    questions = section(page, "Questions")
    assert "Ms Toy has looked at 2 papers; left late: 3<" in questions, "a zero is left out"
    assert questions.count('<rect class="bar c0"') == 16
    assert section(page, "Answers").count("<td>asked by</td>") == 4, "two of each stage"
    assert "<td>answer</td><td><pre>x\nx</pre></td>" in section(page, "Answers"), "lines as they were written"
    order = [page.index(f"<h2>{title}</h2>") for title in ("Marks", "The run", "Papers", "Lineage", "Reproduce")]
    assert order == sorted(order)
    assert "Skills after each stage" not in page and "pass@1" not in page


def test_what_a_model_or_a_recipe_wrote_is_text_on_the_page_and_on_the_screen(posttrain: Command) -> None:
    page = page_of(posttrain, f"examiner={json.dumps(HOSTILE)}", "factor=40")
    assert "<script" not in page and "{{ 7 * 7 }}" in page and "49" not in section(page, "Papers")
    assert section(page, "Papers").count(SHOWN) >= 3 and SHOWN in section(page, "Questions")
    assert SHOWN in section(page, "Answers")


def test_a_file_that_is_not_what_was_declared_leaves_the_rest_of_the_report(posttrain: Command) -> None:
    page = page_of(posttrain, "spoilt=true", "factor=60")
    assert "<p class=failure><b>exam</b>: cannot be shown: " in section(page, "Papers")
    assert "<p class=failure><b>exam</b>: cannot be shown: " in section(page, "Questions")
    assert ">train</td>" in section(page, "Marks") and "<td>asked by</td>" in section(page, "Answers")


def test_without_its_package_old_runs_are_shown_all_the_same(posttrain: Command, tmp_path: Path) -> None:
    page_of(posttrain, "factor=80")
    bare = {"PYTHONPATH": str(tmp_path)}
    done = posttrain("report", "latest", variables=bare)
    assert done.returncode == 0, done.stderr
    page = Path(done.stdout.strip()).read_text()
    assert "exam-base" in section(page, "The run") and "Papers" not in page
    assert posttrain("show", "latest", variables=bare).returncode == 0

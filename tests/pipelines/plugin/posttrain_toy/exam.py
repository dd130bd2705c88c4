"""A third-party stage with all that a stage may declare: an exam for numbers, and its sections of the report."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Bars, Column, Curves, Form, Profiles, Results, Role, Samples, Table
from components.contract.params import Params

SUBJECTS = {"arts": 2, "maths": 5}


class ExamParams(Params):
    """Parameters of the exam."""

    questions: int = Field(default=4, ge=1)
    """How many questions are asked in each subject."""
    examiner: str = "Ms Toy"
    """Who asks; whatever the name says, a page shows it as text."""
    spoilt: bool = False
    """Whether the paper is written in a layout that nobody declared."""


def run(context: Any) -> None:
    """Ask; a number knows the answers to as many questions of a subject as it is divisible by its prime."""
    params, folder = context.params, context.output("metrics")
    (model,) = context.inputs("model")
    number = json.loads((model.path / "model.json").read_text())
    asked = range(1, params.questions + 1)
    marks = {subject: sum(number % prime**k == 0 for k in asked) for subject, prime in SUBJECTS.items()}
    metrics: dict[str, Any] = {
        f"mark_{subject}": {"value": float(mark), "low": mark - 0.5, "high": mark + 0.5, "n": params.questions}
        for subject, mark in marks.items()
    }
    _write(folder / "metrics.json", metrics | {"effort": {"value": float(number)}})
    rows = [{"question": k, "right_so_far": sum(min(k, mark) for mark in marks.values())} for k in asked]
    (folder / "history.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    answers = [{"question": k, "examiner": params.examiner, "answer": "\n".join(["x"] * k)} for k in asked]
    (folder / "answers.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in answers))
    profile = {
        subject: {str(k): {"value": min(k, mark) / k} for k in asked if k.bit_count() == 1}
        for subject, mark in marks.items()
    }
    _write(folder / "profile.json", profile)
    paper = _paper(marks, list(asked), params.examiner)
    _write(folder / "paper.json", [paper] if params.spoilt else paper)
    context.headline(effort=float(number), **{f"mark_{subject}": float(mark) for subject, mark in marks.items()})


def _paper(marks: dict[str, int], asked: list[int], examiner: str) -> dict[str, Any]:
    papers = [
        {
            "subject": subject,
            "by": examiner,
            "verdict": "well_done" if mark else "not_passed",
            "points": {f"p.{k}": min(mark, k) / k for k in asked},
            "remarks": ["neat", "short"][:mark],
        }
        for subject, mark in marks.items()
    ]
    counts = {subject: {"edges": asked, "given": [int(k <= mark) for k in asked]} for subject, mark in marks.items()}
    said = f"{examiner} has looked at {len(papers)} papers"
    return {"said": said, "papers": papers, "counts": counts, "left": {"early": 0, "late": 3}}


def _write(path: Any, content: Any) -> None:
    path.write_text(json.dumps(content))


EXAM = Component(
    name="toy-exam",
    summary="Examine a number",
    inputs={"model": Port(type=ArtifactType.MODEL, doc="who sits the exam")},
    outputs={"metrics": Port(type=ArtifactType.METRICS, doc="marks, and the papers")},
    params=ExamParams,
    run="posttrain_toy.exam:run",
    image="cpu",
    role=Role.MEASURING,
    metrics={"mark_<subject>": "questions of a subject that were answered", "effort": "what it took"},
    results=Results(
        title="Marks",
        metric="mark_<subject>",
        name="mark",
        about="mark in the final exam",
        share=False,
        over="questions",
        columns=(Column(value="effort", title="effort, joules", form=Form.NUMBER, digits=2),),
    ),
    report=(
        Curves(title="How the exams went", columns={"right_so_far": "right answers so far"}, x="question"),
        Profiles(title="Marks by length", file="profile.json", x_label="questions", y_label="share, %", x_log2=True),
        Table(
            title="Papers",
            lead="Every paper was read twice.",
            file="paper.json",
            rows="papers",
            text="said",
            marked=("verdict", "well_done"),
            columns=(
                Column(value="subject", title="subject"),
                Column(value="points.<question>", title="points at <question>, %", form=Form.SHARE),
                Column(value="by", title="read by"),
                Column(value="verdict", then="remarks", title="verdict", form=Form.WORDS),
            ),
        ),
        Bars(
            title="Questions",
            file="paper.json",
            bars="counts",
            groups=("given",),
            facts={"said": "{}", "left.<when>": "left <when>: {}"},
        ),
        Samples(
            title="Answers",
            file="answers.jsonl",
            count=2,
            columns=(Column(value="examiner", title="asked by"), Column(value="answer", title="answer")),
        ),
    ),
)

"""Solutions as prompts, and problems that they solve as answers: exercises in writing problems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import field_validator, model_validator

from components.contract.errors import InputError
from components.contract.operators import Bound, OperatorSpec
from components.tasks.nested import check_endless
from components.tasks.seeds import derive_rng
from components.tasks.slots import DEMONSTRATOR, SOURCE
from components.tasks.source import BadRow, SourceConfig, SourceRequest, SourceRow, SourceRows

SOLUTION = "{solution}"
TEMPLATE = "A solution: {solution}\nWrite another problem that has this answer."
VERIFIER = "exact"


def writing_prompt(template: str, solution: str) -> str:
    """Return the template with the solution in its place; what the solution holds is not read again."""
    before, _, after = template.partition(SOLUTION)
    return f"{before}{solution}{after}"


def check_writing_template(template: str) -> str:
    """Return the template; raise InputError unless it has exactly one placeholder, for the solution."""
    if template.count(SOLUTION) != 1:
        raise InputError(f"the template needs {SOLUTION} once, found {template!r}")
    return template


class ProblemWritingConfig(SourceConfig):
    """Whose items, who solves them, and who writes the problems."""

    endless: ClassVar[bool] = True
    source: Annotated[OperatorSpec, SOURCE]
    """The source of the items; one without end."""
    expert: Annotated[OperatorSpec, DEMONSTRATOR] = OperatorSpec(name="recorded")
    """The demonstrator that solves them."""
    writer: Annotated[OperatorSpec, DEMONSTRATOR]
    """The demonstrator that writes a problem with the answer of the item, such as sum_variant."""
    template: str = TEMPLATE
    """The prompt; {solution} is replaced. The same as that of rollout self_play_variants."""

    @field_validator("template")
    @classmethod
    def _complete(cls, value: str) -> str:
        return check_writing_template(value)

    @model_validator(mode="after")
    def _known(self) -> ProblemWritingConfig:
        check_endless(self.source, "problem_writing")
        self.expert.resolve()
        self.writer.resolve()
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def problem_writing(request: SourceRequest, *, config: ProblemWritingConfig) -> SourceRows:
    """Make a row of every item of the inner source: its solution is the prompt, a problem that it solves the answer.

    The verifier accepts that one problem, so that rows can be curated like others; as RL's prompts they would be of no
    use, since many problems have one answer. Source: Liang et al. 2025 (SvS), variational problem synthesis.
    """
    inner: SourceRows = config.source.resolve()(request)
    told = {"expert": config.expert.name, "writer": config.writer.name, "template": config.template}
    rows = _rows(inner.rows, config.expert.resolve(), config.writer.resolve(), config.template, request.seed)
    return SourceRows(rows, {"source": "problem_writing", **told, "of": dict(inner.origin)})


def _rows(
    rows: Iterator[SourceRow | BadRow], expert: Bound, writer: Bound, template: str, seed: int
) -> Iterator[SourceRow | BadRow]:
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        item = row.item(row.domain or "problem_writing")
        solution = expert(item, derive_rng(seed, "problem_writing", "expert", item.id))
        problem = writer(item, derive_rng(seed, "problem_writing", "writer", item.id))
        if row.messages or not isinstance(solution, str) or not isinstance(problem, str):
            raise InputError(f"{row.where}: source problem_writing needs a prompt and one text each, and found turns")
        yield SourceRow(row.where, prompt=writing_prompt(template, solution), answer=problem, verifier=VERIFIER)

"""What a distillation needs of the stage: its teacher, and the prompts that the teacher reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.contract.further import TEACHERS
from components.modeling.loading.load import load_policy
from components.modeling.models.policy import Policy
from components.modeling.supervised.distillation import Distillation, check_tokenizers, taught
from components.modeling.supervised.examples import Example, examples_from_rows

if TYPE_CHECKING:
    from components.sft.params import SftParams

TEACHER_PROMPT = "teacher_prompt"
"""Key of a row: the prompt that the teacher reads in the place of the row's own."""
Rows = Sequence[Mapping[str, Any]]


def open_distillation(ctx: StageContext[SftParams], policy: Policy) -> Distillation:
    """Return the distillation from input `teachers`, or from the model that the stage starts from.

    Raises InputError for a teacher with other tokens, and for ranks that divide a pass.
    """
    assert ctx.params.distillation is not None
    resources = ctx.job.resources
    for name in ("context_parallel", "tensor_parallel"):
        if getattr(resources, name) > 1:
            raise InputError(f"distillation: no pass of model and teacher is divided over ranks; set {name}: 1")
    given = ctx.input("model" if ctx.params.distillation.teacher == "start" else TEACHERS)
    teacher = load_policy(given.path, device=ctx.device, dtype=ctx.params.dtype)
    teacher.module.requires_grad_(False)
    check_tokenizers(policy.tokenizer, teacher.tokenizer)
    return Distillation(teacher, ctx.params.distillation)


def with_teacher_prompts(
    examples: Sequence[Example], rows: Rows, distillation: Distillation, params: SftParams
) -> list[Example]:
    """Return the examples of `rows` with what the teacher reads: `teacher_prompt` where a row has one."""
    teacher = distillation.teacher
    shown = [_shown(row, number) for number, row in enumerate(rows, start=1)]
    return taught(examples, examples_from_rows(teacher.tokenizer, shown, learn=params.learn, ends=teacher.ends))


def _shown(row: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    if TEACHER_PROMPT not in row:
        return row
    prompt = row[TEACHER_PROMPT]
    name = f"row {number} ({row.get('id', 'without id')})"
    if not isinstance(prompt, str) or not prompt:
        raise InputError(f"{name}: {TEACHER_PROMPT} is no text")
    if row.get("messages") or "response" not in row:
        raise InputError(f"{name}: {TEACHER_PROMPT} stands in for the prompt of a response, and the row has no prompt")
    return {**row, "prompt": prompt}

"""A model edited along a direction: some rows of some matrices are moved, and nothing is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.merge.config import MergerConfig

if TYPE_CHECKING:
    from torch import Tensor

    from components.merge.stack import Block, Stack


class WeightEditConfig(MergerConfig):
    """Which rows are moved, where to, and how far."""

    most_models: ClassVar[int | None] = 1
    tensors: str = "*.mlp.gate_proj.weight"
    """Pattern of the matrices' names; their rows are as wide as the model."""
    rows: int | None = Field(default=None, ge=1)
    """How many rows are moved, of all these matrices together; unset: all of them."""
    choose: Literal["opposite", "aligned", "random"] = "opposite"
    """Which: those whose cosine with the direction is lowest or highest, or any."""
    direction: Literal["probe", "random"] = "probe"
    """Of length 1. probe: the weights of a linear probe that tells responses of input `probe` with the behaviour from
    those without; random: any."""
    behaviour: dict[str, str | bool | int] = Field(default_factory=dict)
    """Column of a row -> the value that says that its response has the behaviour, such as `quality: rude`."""
    alpha: float = 1.0
    """How far each row is moved along the direction; negative: against it."""
    seed: int = Field(default=0, ge=0)
    """Draws other rows, or another direction, beside the stage's seed."""

    @property
    def asked(self) -> tuple[str, ...]:
        """Return the optional input ports that these settings require."""
        return ("probe",) if self.direction == "probe" else ()

    @model_validator(mode="after")
    def _told(self) -> WeightEditConfig:
        if self.direction == "probe" and len(self.behaviour) != 1:
            raise ValueError("behaviour: name one column and its value, such as {quality: rude}")
        return self


def weight_edit(stack: Stack, *, config: WeightEditConfig) -> Callable[[Block], Tensor]:
    """Return W with alpha v added to the chosen rows, where v, [D], is the direction.

    Rows that go against the direction most are moved towards it: those of a gate then open where the behaviour is, and
    what their neurons write is against it. Rows are chosen among all matrices that fit, [R, D] each.

    Source: Wang et al. 2024, Model Surgery (arXiv:2407.08770), section 3, and its released code. There the probe's
    weights are added as they are; here they have length 1.
    """
    chosen, direction = stack.family.once(
        ("weight_edit", config.model_dump_json(exclude={"alpha"})), lambda: _prepared(stack, config)
    )
    marks = chosen.get(stack.name)

    def merge(block: Block) -> Tensor:
        model = block.models[0]
        if marks is None:
            return model
        moved = marks[block.first : block.first + len(model)].unsqueeze(1)
        return model + config.alpha * moved * direction

    return merge


def _prepared(stack: Stack, config: WeightEditConfig) -> tuple[dict[str, Tensor], Tensor]:
    """Return which rows of each matrix are moved, as ones and zeros, and the direction."""
    import torch

    from components.merge.probe import behaviour_direction

    family = stack.family
    matrices = [one for one in family.stacks() if one.fits(config.tensors) and 0 not in one.shape]
    if not matrices:
        raise InputError(f"merger 'weight_edit': no tensor is called {config.tensors}")
    widths = {one.shape[-1] for one in matrices if len(one.shape) == 2}
    if len(widths) != 1 or any(len(one.shape) != 2 for one in matrices):
        raise InputError(f"merger 'weight_edit': {config.tensors} fits tensors that are no matrices of one width")
    generator = torch.Generator().manual_seed(family.seed * 1_000_003 + config.seed)
    direction = (
        behaviour_direction(family, *next(iter(config.behaviour.items())))
        if config.direction == "probe"
        else torch.randn(widths.pop(), generator=generator)
    )
    direction = direction / direction.norm()
    if direction.shape[0] != matrices[0].shape[1]:
        width, own = direction.shape[0], matrices[0].shape[1]
        raise InputError(f"merger 'weight_edit': rows of {matrices[0].name} are {own} wide, and the model {width}")
    scores = {one.name: torch.cat([_cosines(block.models[0], direction) for block in one.blocks()]) for one in matrices}
    every = torch.cat(list(scores.values()))
    if config.choose == "random":
        every = torch.rand(len(every), generator=generator)
    order = every.argsort(stable=True, descending=config.choose == "aligned")
    moved = torch.zeros(len(every))
    moved[order[: config.rows]] = 1.0
    parts = moved.split([len(one) for one in scores.values()])
    return dict(zip(scores, parts, strict=True)), direction


def _cosines(rows: Tensor, direction: Tensor) -> Tensor:
    return (rows @ direction) / rows.norm(dim=1).clamp_min(1e-12)

"""The models that rewards ask, where responses are only judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from components.contract.context import StageContext
from components.contract.endpoints import endpoint_name
from components.contract.errors import InputError
from components.contract.further import asked_ports
from components.contract.operators import with_used
from components.modeling.serving.further import FurtherModel, FurtherModels
from components.rl.presets import bind

if TYPE_CHECKING:
    from components.rl.params import RLParams


@contextmanager
def opened_further(ctx: StageContext[RLParams], params: RLParams) -> Iterator[Mapping[str, Sequence[FurtherModel]]]:
    """Yield the models that the rewards of `params` ask, by port; raise InputError for one that is not connected."""
    slots = [bind(params.slots(phase)) for phase in params.phases or (None,)]
    asked = asked_ports(with_used(bound for one in slots for bound in (*one.rewards, one.combine)))
    for port, names in asked.items():
        items = ctx.inputs(port)
        if not items:
            raise InputError(
                f"rescore: {names[0]} asks {port}, and the stage has none; --in {port}=MODEL names one of the store"
            )
        if endpoint := next((item.source for item in items if endpoint_name(item.source)), None):
            raise InputError(
                f"rescore: {names[0]} asks {endpoint}; --in {port}=MODEL names a model of the store instead"
            )
    if not asked:
        yield {}
        return
    with FurtherModels(ctx, *asked, alone=True) as further:
        yield further.by_port

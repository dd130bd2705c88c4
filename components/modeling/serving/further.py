"""The further models of a running stage, by port."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from components.contract.artifacts import canonical_json
from components.contract.context import Input, StageContext
from components.contract.endpoints import endpoint_name
from components.contract.further import FURTHER
from components.modeling.serving.endpoint import EndpointModel
from components.modeling.serving.local import LocalModel
from components.modeling.serving.reward_model import LocalRewardModel, is_reward_model

ANSWERS = "answers.jsonl"
"""File in an output of a stage that used endpoints: every request with its answer, sorted by request."""

FurtherModel = EndpointModel | LocalModel | LocalRewardModel


class FurtherModels:
    """The models connected to the ports for further models; a context manager that closes them all.

    Keys of endpoints are looked up at once, so that a missing one fails the stage at its start. Weights
    are loaded when a model is first used. A model that several ports name is loaded once.
    """

    def __init__(self, ctx: StageContext[Any], *ports: str, alone: bool = False) -> None:
        """`ports` are those of FURTHER that the component declares, by default all.

        `alone`: the stage holds no other model, so that a single one of these keeps its engine awake.
        """
        self._ctx = ctx
        given = {
            item.digest for port in ports or FURTHER for item in ctx.inputs(port) if not endpoint_name(item.source)
        }
        self._awake = alone and len(given) == 1
        self._models: dict[str, FurtherModel] = {}
        self._records = ctx.records() if ctx.job.endpoints else {}
        self.by_port: dict[str, list[FurtherModel]] = {
            port: [self._model(item) for item in ctx.inputs(port)] for port in ports or FURTHER
        }

    def of(self, port: str) -> Sequence[FurtherModel]:
        """Return the models of a port in the order of the recipe; empty if nothing is connected."""
        return self.by_port.get(port, [])

    def write_answers(self, folder: Path) -> None:
        """Write the endpoints' answers, if any, into an output for its readers."""
        records = self._ctx.records() if self._ctx.job.endpoints else {}
        if records:
            rows = (canonical_json({"key": key, **records[key]}) + b"\n" for key in sorted(records))
            (folder / ANSWERS).write_bytes(b"".join(rows))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for model in self._models.values():
            model.close()

    def _model(self, item: Input) -> FurtherModel:
        if item.digest not in self._models:
            self._models[item.digest] = self._opened(item)
        return self._models[item.digest]

    def _opened(self, item: Input) -> FurtherModel:
        ctx, endpoint = self._ctx, endpoint_name(item.source)
        if endpoint is not None:
            return EndpointModel(endpoint, ctx.job.endpoints[endpoint], self._records, ctx.record)
        dtype = getattr(ctx.params, "dtype", "float32")
        resources = ctx.job.resources
        if is_reward_model(item.path):
            return LocalRewardModel(item.source, item.path, device=ctx.device, dtype=dtype)
        return LocalModel(
            item.source, item.path, device=ctx.device, dtype=dtype, resources=resources, awake=self._awake
        )

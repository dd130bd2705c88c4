"""Declaration of the audit_reward stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from components.audit_reward.params import AuditRewardParams
from components.audit_reward.place import AUDIT, PAGE
from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Column, Form, Role, Table
from components.contract.operators import Bound
from components.pages.pages import DOCUMENT
from components.rl.component import COMPONENT as RL


def sources(params: AuditRewardParams) -> Iterator[Bound | str | Path]:
    """Yield the operators of the method, the demonstrator, and the page's templates."""
    yield from params.operators()
    yield params.audit.demonstrator.resolve()
    yield from (PAGE, DOCUMENT)


COMPONENT = Component(
    name="audit_reward",
    summary="Audit of a reward before RL: what empty, wrong, padded and injected responses earn, and paid phrases",
    inputs={name: port for name, port in RL.inputs.items() if name not in ("heldout", "ledger", "optimizer")},
    outputs={
        "metrics": Port(type=ArtifactType.METRICS, doc="Findings, and what right and the best wrong responses earn"),
        "report": Port(type=ArtifactType.REPORT, doc="Who earned what, as a page and as audit.json"),
    },
    params=AuditRewardParams,
    run="components.audit_reward.run:run",
    backends=frozenset({"sampler"}),
    model_sizes=RL.model_sizes,
    memory=RL.memory,
    further_memory=RL.further_memory,
    preloads=(*RL.preloads, "components.audit_reward.run"),
    metrics={
        "num_exploits": "responses that earn more than they may; 0 for a sound reward",
        "gold_reward": "mean reward of right responses",
        "best_wrong_reward": "mean reward of the wrong responses that earn most",
    },
    choices=RL.choices,
    role=Role.OTHER,
    report=(
        Table(
            title="Reward before training",
            lead="Responses of known worth, played against the reward.",
            port="report",
            file=AUDIT,
            rows="rows",
            marked=("is_finding", True),
            columns=(
                Column(value="name", title="response"),
                Column(value="worth", title="is"),
                Column(value="reward.value", title="reward", form=Form.NUMBER, digits=3),
                Column(value="too_much_share", title="earns too much, %", form=Form.SHARE),
                Column(value="right_share", title="verifier says right, %", form=Form.SHARE),
                Column(value="what", title="what it is"),
            ),
        ),
    ),
    sources=sources,
    verifies=lambda params: () if params.labels == "ignored" else ("dataset",),
    refuses_rows=RL.refuses_rows,
    refuses_backends=RL.refuses_backends,
    on_pool=RL.on_pool,
    asks=RL.asks,
)

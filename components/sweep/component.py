"""Declaration of the sweep stage."""

from __future__ import annotations

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Column, Form, Table
from components.sweep.params import SweepParams

COMPONENT = Component(
    name="sweep",
    summary="Draw, judge and compare the trials of a recipe's sweep; the section `sweep` adds these stages",
    inputs={},
    outputs={"report": Port(type=ArtifactType.REPORT, doc="trials.json: every trial with its parameters and results")},
    params=SweepParams,
    run="components.sweep.run:run",
    image="cpu",
    metrics={
        "objective": "The best trial's objective (optimistic: it is the best of several)",
        "best_trial": "Number of the best trial, from 1",
        "best_<param>": "The best trial's value of a swept parameter, where it is a number",
        "importance_<param>": "Share of the objective's variance that fANOVA ascribes to a parameter",
        "num_trials": "Trials of the sweep",
        "num_finished": "Trials that reached the objective",
        "num_stopped": "Trials that a rung stopped",
        "num_failed": "Trials that failed, where the sweep goes on without them",
        "<param>_<trial>": "Drawn value of a parameter, or its position among the choices",
        "goes_on_<trial>": "1 for a trial that goes on after a rung, 0 for one that it stops",
    },
    report=(
        Table(
            title="Sweep",
            lead="Every trial, in the order in which they were drawn.",
            port="report",
            file="trials.json",
            rows="trials",
            text="note",
            marked=("is_best", True),
            columns=(
                Column(value="number", title="trial"),
                Column(value="params.<name>", title="<name>"),
                Column(value="value", title="objective", form=Form.NUMBER, digits=4),
                Column(value="status", title="end", form=Form.WORDS),
            ),
        ),
        Table(
            title="What mattered in the sweep",
            lead="fANOVA: the share of the objective's variance over the search space that a parameter explains alone.",
            port="report",
            file="importances.json",
            rows="importances",
            text="note",
            columns=(
                Column(value="parameter", title="parameter"),
                Column(value="importance", title="importance, %", form=Form.SHARE),
            ),
        ),
    ),
)

"""What the stages of all recipes use, told without the code under test: from their text, and from import lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from components.contract.job import StageRef
from components.contract.registry import slots
from pipelines.recipe.recipe import load_recipe
from pipelines.recipe.stage import Stage

ROOT = Path(__file__).parents[3]
OPERATORS = {
    slot.name: {
        path.stem: f"{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}:{path.stem}"
        for path in (ROOT / slot.package.replace(".", "/")).rglob("[a-z]*.py")
    }
    for slot in slots().values()
}
"""Slot -> operator -> where it lies, told from the folders."""
NOT_HERE = ("gsm8k", "math-rl", "code-rl", "chat-sft")
"""Their data are files of the user's, or the hub's."""
MAKES = {
    "reasoning_gym": "reasoning_gym",
    "rules": "exact",
    "continuations": "exact",
    "segments": "exact",
    "facts": "factual",
    "choice": "choice",
    "notes": "notes",
    "mask_steps": "fills",
    "shuffle_steps": "permutation",
    "functions": "exact",
    "biographies": "exact",
    "generators": "exact",
    "claims": "exact",
    "graded_choice": "choice",
    "beams": "coefficients",
    "views": "views",
    "pipelines": "plan",
    "programs": "programs",
    "python_programs": "code_tests",
    "patches": "patches",
    "circuits": "circuits",
    "sqlite": "sqlite",
    "countdown": "countdown",
    "latin_squares": "latin_squares",
    "solution_sets": "solution_sets",
    "concepts": "exact",
    "subgoal_programs": "tape",
    "soft_constraints": "soft_constraints",
    "problem_writing": "exact",
    "forms": "numeric",
    "dialects": "exact",
    "preference_items": "ranks_best",
}
"""Source -> the verifier of its rows."""
EXERCISE = {"source": ("source", None), "expert": ("demonstrator", "recorded")}
NESTED = {
    ("source", "guided"): {"source": ("source", None), "expert": ("demonstrator", "gold")},
    ("source", "choice"): {"source": ("source", None)},
    ("source", "suites"): {
        "source": ("source", None),
        "faulty": ("demonstrator", None),
        "verifier": ("verifier", "programs"),
    },
    ("source", "problem_writing"): {**EXERCISE, "writer": ("demonstrator", None)},
    ("source", "templated"): {"source": ("source", None)},
    ("source", "mask_steps"): EXERCISE,
    ("source", "shuffle_steps"): EXERCISE,
    ("demonstrator", "choice"): {"demonstrator": ("demonstrator", "gold")},
    ("demonstrator", "confident"): {"demonstrator": ("demonstrator", "gold")},
    ("selector", "influence"): {"": ("demonstrator", "gold")},
    ("demonstrator", "careless"): {"demonstrator": ("demonstrator", "gold")},
    ("demonstrator", "unmarked"): {"demonstrator": ("demonstrator", None)},
    ("demonstrator", "opened"): {"demonstrator": ("demonstrator", "gold")},
    ("reward", "rule_then_judge"): {"rule": ("verifier", "exact")},
    ("guidance", "demonstrations"): {"demonstrator": ("demonstrator", "gold")},
    ("guidance", "reformulate"): {"expert": ("demonstrator", "gold")},
    ("reward", "fade"): {"reward": ("reward", None)},
    ("rollout", "student_share"): {"demonstrator": ("demonstrator", "recorded")},
    ("rollout", "roles"): {"verdict": ("verifier", "exact")},
    ("generator", "critique_pairs"): {"reviser": ("demonstrator", None)},
    ("generator", "score_pairs"): {"verifier": ("verifier", None)},
}
"""Slot and operator -> field -> slot of the operator in it, and the one that stands there by default."""
MEASURES = {"metrics": "metric", "diagnostics": "diagnostic", "strategies": "strategy"}
DEFAULTS: dict[str, Any] = {"combine": "sum", "replay": "none", "critic": "none", "annotate": []}
"""What fills slots that a preset leaves out."""
_IMPORT = re.compile(r"^ *from (components[\w.]*) import (?:\(([^)]*)\)|([\w, ]+))", re.MULTILINE)
Chosen = set[tuple[str, str]]
"""Slot and name of each operator."""


@cache
def all_stages() -> dict[str, tuple[Stage, Chosen, frozenset[str]]]:
    """Return "recipe/stage" -> stage, the operators that it uses, and the verifiers that rows of its inputs name.

    Of stages that differ in name, recipe or seed alone the first one stands for all: neither is code.
    """
    found = {}
    seen: set[tuple[str, str, frozenset[str]]] = set()
    folder = ROOT / "pipelines" / "recipes"
    for path in sorted(folder.rglob("*.yaml")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        if name in NOT_HERE:
            continue
        rows: dict[str, frozenset[str]] = {}
        for stage in load_recipe(name).stages:
            given = frozenset().union(
                *(rows[ref.stage] for refs in stage.inputs.values() for ref in refs if isinstance(ref, StageRef))
            )
            rows[stage.name] = _verifiers_of_rows(stage, given)
            read = frozenset(_reads(stage, rows))
            kind = stage.component.name, stage.config.model_dump_json(), read
            if kind in seen:
                continue
            seen.add(kind)
            chosen = set(_chosen(stage))
            if _verifies(stage):
                chosen |= {("verifier", verifier) for verifier in (read | _own_verifiers(stage))}
            found[f"{name}/{stage.name}"] = stage, chosen, read
    return found


def files_of(chosen: Chosen) -> set[str]:
    """Return the files of operators and all that these import."""
    roots = [OPERATORS[slot][name].partition(":")[0] for slot, name in chosen]
    return set().union(*(reach(root) for root in roots))


@cache
def reach(module: str) -> frozenset[str]:
    """Return the files that a module reaches by its import lines, those for type checkers left out."""
    done: set[str] = set()
    queue = [module]
    while queue:
        name = queue.pop()
        base = ROOT / name.replace(".", "/")
        path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        label = path.relative_to(ROOT).as_posix()
        if label in done or not path.is_file() or name.startswith(("components.contract", "components.runtime.")):
            continue
        done.add(label)
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"^if TYPE_CHECKING:\n(?:(?: +.*)?\n)+", "", text, flags=re.MULTILINE)
        for base_name, *names in _IMPORT.findall(text):
            queue += [base_name, *(f"{base_name}.{item}" for item in re.findall(r"\w+", " ".join(names)))]
    return frozenset(done)


def _chosen(stage: Stage) -> Iterator[tuple[str, str]]:
    params = stage.config.model_dump(mode="json")
    if stage.component.name == "curate":
        for share in params["sources"]:
            yield from _with_nested("source", share["source"])
            for choice in share["demonstrators"]:
                yield from _with_nested("demonstrator", choice["demonstrator"])
        for spec in params["selectors"]:
            yield from _with_nested("selector", spec)
        yield "mixture", params["mixture"]["name"]
    if stage.component.name == "sft" and params["transfer"]:
        yield "weighting", params["transfer"]["weighting"]["name"]
    if stage.component.name == "preference":
        yield "preference_loss", params["preference_loss"]["name"]
    if stage.component.name == "reward_model":
        yield "scorer_loss", params["scorer_loss"]["name"]
    if stage.component.name == "merge":
        yield "merger", params["merger"]["name"]
    if stage.component.name == "synthesize":
        yield from _with_nested("generator", params["generator"])
        for spec in (*params["programs"], *params["judge_programs"]):
            yield from _with_nested("demonstrator", spec)
    for field in ("metrics", "diagnostics", "strategies") if stage.component.name in ("evaluate", "select") else ():
        for spec in params.get(field, ()):
            yield from _with_nested(MEASURES[field], spec)
    if stage.component.name == "rl":
        preset = _preset(params["method"])
        for phase in params["phases"] or [{}]:
            for slot in {**preset, **DEFAULTS}:
                levels = (
                    phase.get("slots", {}).get(slot),
                    params[slot],
                    preset.get(slot, DEFAULTS.get(slot)),
                )
                specs = next(level for level in levels if level is not None)
                for spec in specs if isinstance(specs, list) else [specs]:
                    yield from _with_nested(slot.removesuffix("s"), {"name": spec} if isinstance(spec, str) else spec)


@cache
def _preset(method: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / "components/rl/methods" / f"{method}.yaml").read_text())["slots"]


def _with_nested(slot: str, spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield slot, spec["name"]
    for criterion in _criteria(spec):
        given = criterion["verifier"]
        yield "verifier", given if isinstance(given, str) else given["name"]
    tasks = (*spec.get("by", {}).values(), spec.get("default") or ()) if spec["name"] == "mixture_of_judges" else ()
    for judge in (judge for judges in tasks for judge in judges):
        given = judge["reward"]
        yield from _with_nested("reward", {"name": given} if isinstance(given, str) else given)
    for field, (inner, default) in NESTED.get((slot, spec["name"]), {}).items():
        given = spec.get(field, default)
        if given is not None:  # an operator that may be left out, such as the verifier of generator score_pairs
            yield from _with_nested(inner, {"name": given} if isinstance(given, str) else given)


def _criteria(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the criteria in the settings of an operator, each of which has a verifier."""
    if spec["name"] == "principles":
        return [*spec.get("start", ()), *spec.get("grammar", ())]
    return spec.get("default", {}).get("criteria", ()) if spec["name"] == "rubric" else []


def _verifies(stage: Stage) -> bool:
    if stage.component.name == "curate":
        return bool(stage.config.verifiability or stage.config.difficulty)  # type: ignore[attr-defined]
    return stage.component.name in ("rl", "evaluate", "select", "replay", "serve", "synthesize")


def _own_verifiers(stage: Stage) -> set[str]:
    """Return the verifiers of the rows that a stage draws from sources."""
    inner = [_innermost(share["source"]) for share in stage.config.model_dump(mode="json").get("sources", ())]
    places = {"exact" for given in inner if given["name"] == "subgoal_programs" and given.get("task") == "place"}
    named = {given["name"] for given in inner if given.get("task") != "place"}
    return {MAKES[name] for name in named if name in MAKES} | places


def _innermost(source: dict[str, Any]) -> dict[str, Any]:
    """Return the source whose verifier the rows keep, however deep it lies."""
    return _innermost(source["source"]) if source["name"] in ("guided", "suites", "templated") else source


def _reads(stage: Stage, rows: dict[str, frozenset[str]]) -> set[str]:
    ports = {"curate": ("dataset",), "replay": ("datasets", "rollouts"), "synthesize": ("dataset", "rollouts")}.get(
        stage.component.name, ("dataset",)
    )
    if getattr(stage.config, "labels", None) == "ignored":
        ports = ()  # nothing judges its prompts; held-out ones are no input here
    refs = [ref for port in ports for ref in stage.inputs.get(port, ()) if isinstance(ref, StageRef)]
    return set().union(*(rows[ref.stage] for ref in refs))


def _verifiers_of_rows(stage: Stage, given: frozenset[str]) -> frozenset[str]:
    """Return the verifiers of the rows that a stage makes: none of plain text, those of its sources or inputs else."""
    if stage.component.name == "curate":
        if stage.config.kind == "corpus":  # type: ignore[attr-defined]
            return frozenset()
        passed_on = {("source", "artifact"), ("source", "artifact_pairs")} & set(_chosen(stage))
        return frozenset(_own_verifiers(stage)) | (given if passed_on else frozenset())
    if stage.component.name == "synthesize" and ("generator", "principles") in (chosen := set(_chosen(stage))):
        return given | {name for slot, name in chosen if slot == "verifier"}  # the row of the list names them
    return given

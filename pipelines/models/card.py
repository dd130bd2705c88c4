"""The model card: README.md with the hub's metadata. It holds names, digests and numbers, no paths and no addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from components.contract.terminal import visible
from components.runtime.system.machine import machine_in_words
from pipelines.models.evaluations import Measured
from pipelines.models.origin import Origin

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

MARKS = re.compile(r"([\\`*_{}\[\]<>()#+!|~$&])")
PATH = re.compile(r"(?:file:|(?<![\w:/.]))(?://?|~/)(?:[^\s/]+/)*([^\s/]+)")
CONFIDENCE = 0.95
SHORT = 12


def model_card(
    name: str, origin: Origin, measured: Sequence[Measured], *, digest: str | None, adapter: bool = False
) -> str:
    """Return the text of README.md."""
    name = visible(" ".join(name.split()))
    front = f"---\n{_metadata(name, origin, measured, adapter)}\n---\n"
    return "\n".join([front, *_body(name, origin, measured, digest, adapter)])


def _metadata(name: str, origin: Origin, measured: Sequence[Measured], adapter: bool) -> str:
    from huggingface_hub import ModelCardData

    components = dict.fromkeys(str(stage["component"]) for stage in origin.stages)
    methods = dict.fromkeys(str(stage["params"]["method"]) for stage in origin.stages if "method" in stage["params"])
    relation: dict[str, Any] = {"base_model_relation": "adapter" if adapter else "finetune"} if origin.base else {}
    data = ModelCardData(
        model_name=name,
        base_model=origin.base,
        license=origin.base_license,
        library_name="peft" if adapter else "transformers",
        pipeline_tag="text-generation",
        tags=["posttrain", *components, *methods],
        datasets=list(origin.datasets) or None,
        eval_results=[_result(item) for item in measured] or None,
        **relation,
    )
    return str(data.to_yaml())


def _result(item: Measured) -> EvalResult:
    from huggingface_hub import EvalResult

    interval = {"interval": [item.low, item.high], "confidence": CONFIDENCE, f"num_{item.over}": item.count}
    return EvalResult(
        task_type="text-generation",
        dataset_type=_slug(item.place or item.stage),
        dataset_name=visible(" ".join((item.place or item.stage).split())),
        dataset_revision=item.dataset,
        metric_type=_slug(item.name),
        metric_name=visible(item.name),
        metric_value=item.value,
        metric_config=item.stage,
        metric_args=interval if item.low is not None else None,
    )


def _slug(text: str) -> str:
    """Return a name as the hub's identifiers are written."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower().replace("@", "_at_")).strip("_") or "unnamed"


def _body(name: str, origin: Origin, measured: Sequence[Measured], digest: str | None, adapter: bool) -> list[str]:
    lines = [f"# {plain(name)}", ""]
    if summary := origin.run.get("summary"):
        lines += [plain(PATH.sub(r"\1", str(summary))), ""]
    lines += [
        _usage(adapter),
        *_evaluation(measured),
        *_lineage(origin, digest),
        *_sources(origin),
        *_stages(origin.stages),
    ]
    return lines


def _usage(adapter: bool) -> str:
    if adapter:
        return "A LoRA adapter: load its base model, then `PeftModel.from_pretrained(base, FOLDER)` of peft.\n"
    return "Load it with `AutoModelForCausalLM.from_pretrained(FOLDER)` and `AutoTokenizer.from_pretrained(FOLDER)`.\n"


def _evaluation(measured: Sequence[Measured]) -> list[str]:
    if not measured:
        return ["## Evaluation", "", "No measurement of this model is known to the store that it comes from.", ""]
    rows = [[item.place or item.metric, item.name, _number(item), _interval(item), item.stage] for item in measured]
    lead = f"Intervals of {100 * CONFIDENCE:.0f} % over {measured[0].over}, not over training seeds."
    return ["## Evaluation", "", lead, "", *_table(["on", "metric", "value", "interval", "stage"], rows), ""]


def _number(item: Measured) -> str:
    return f"{100 * item.value:.1f} %" if item.share else f"{item.value:.4g}"


def _interval(item: Measured) -> str:
    if item.low is None or item.high is None:
        return "unknown"
    low, high = (f"{100 * end:.1f}" if item.share else f"{end:.4g}" for end in (item.low, item.high))
    return f"{low} to {high}" + (f", n = {item.count}" if item.count else "")


def _lineage(origin: Origin, digest: str | None) -> list[str]:
    run, code = origin.run, origin.maker.get("code") or origin.run.get("code") or {}
    version = f"{code.get('version')}{' with uncommitted changes' if code.get('dirty') else ''}" if code else None
    facts: list[tuple[str, Any]] = [
        ("this model", digest),
        ("run", origin.run_id),
        ("recipe", run.get("recipe")),
        ("recipe digest", run.get("recipe_digest")),
        ("plan digest", run.get("plan_digest")),
        ("code", version),
        ("lock file", code.get("lock")),
        ("made on", machine_in_words(origin.maker.get("machine", {}))),
        ("base model", origin.base or origin.base_digest or ("trained from scratch" if origin.stages else None)),
        ("license of the base", origin.base_license or ("not known here" if origin.base_digest else None)),
        ("models before it", list(origin.models)),
        ("data", list(origin.data)),
    ]
    rows = [[name, _joined(value)] for name, value in facts if value]
    lead = "Made by posttrain. Digests are SHA-256: of a manifest that names every file with its own."
    return ["## Lineage", "", lead, "", *_table(["", ""], rows, verbatim=True), ""]


def _sources(origin: Origin) -> list[str]:
    rows = [[name, license or "not stated", revision or "not stated"] for name, license, revision in origin.sources]
    lead = "What its stages read from outside, with the licences that are stated."
    return ["## Data", "", lead, "", *_table(["source", "licence", "revision"], rows), ""] if rows else []


def _joined(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _stages(stages: Iterable[Any]) -> list[str]:
    rows = [
        [node["stage"], node["component"], node["run_id"], str(node["fingerprint"] or "")[:SHORT], str(node["seed"])]
        for node in stages
    ]
    head = ["stage", "component", "run", "fingerprint", "seed"]
    return ["## Stages", "", *_table(head, rows), ""] if rows else []


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, verbatim: bool = False) -> list[str]:
    """Return a Markdown table; with `verbatim` the last cell of each row is code."""
    lines = [list(head), ["---"] * len(head)]
    for row in rows:
        cells = [plain(str(cell)) for cell in row]
        if verbatim:
            cells[-1] = ", ".join(f"`{part}`" for part in cells[-1].split(", "))
        lines.append(cells)
    return [f"| {' | '.join(cells)} |" for cells in lines]


def plain(text: str) -> str:
    """Return a text as one line of Markdown in which nothing is a mark, a tag or a link."""
    return MARKS.sub(r"\\\1", visible(" ".join(text.split())))

"""The first prompt of each model of a recipe in tokens' marks: template, BOS, ends, system text, thinking.

Read from the JSON of the model folders, without transformers; a template is rendered under its bounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.contract.chat_template import ERRORS, render
from components.contract.job import UriRef, alternatives
from components.contract.prompt_layout import ASKED, PROBE, QUESTION, drops_system, ignored_header
from pipelines.plan.memory import model_file
from pipelines.recipe.recipe import Recipe

SPECIAL = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token")
MAX_JSON_BYTES = 100_000_000
SHOWN_CHARS = 160
THOUGHT = "<think>\nSix sevens.\n</think>\n\n"


@dataclass(frozen=True)
class FirstPrompt:
    """What a model's prompts look like."""

    model: str
    text: str
    """The prompt of a question, BOS and generation prompt included."""
    facts: dict[str, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    """What is noteworthy, for the notes."""

    @property
    def line(self) -> str:
        """Return all of it in one line."""
        shown = self.text if len(self.text) <= SHOWN_CHARS else f"{self.text[:SHOWN_CHARS]}..."
        return f"prompt of {self.model}: {shown!r}; " + ", ".join(f"{name} {what}" for name, what in self.facts.items())


def first_prompts(recipe: Recipe) -> list[FirstPrompt]:
    """Return the first prompt of each model folder that the recipe names and this machine holds."""
    return list({reference: prompt for _, reference, prompt in _prompts(recipe)}.values())


def prompt_faults(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yield (stage, remark) for models whose templates treat prompts in a way that one should know."""
    for stage, _, prompt in _prompts(recipe):
        for fault in prompt.faults:
            yield stage, f"{prompt.model}: {fault}"


def _prompts(recipe: Recipe) -> Iterator[tuple[str, str, FirstPrompt]]:
    known: dict[str, FirstPrompt | None] = vars(recipe).setdefault("first prompts", {})  # a plan asks several times
    for stage in recipe.stages:
        for reference in (one for refs in stage.inputs.values() for one in alternatives(refs)):
            if not isinstance(reference, UriRef):
                continue
            if reference.uri not in known:
                config = model_file(reference, "config.json")
                known[reference.uri] = None if config is None else first_prompt(config.parent, reference.uri)
            if (prompt := known[reference.uri]) is not None:
                yield stage.name, reference.uri, prompt


def first_prompt(folder: Path, model: str) -> FirstPrompt | None:
    """Return the first prompt of a model folder; None for one without a tokenizer that can be read."""
    settings, tokenizer = _json(folder / "tokenizer_config.json"), _json(folder / "tokenizer.json")
    if not settings and not tokenizer:
        return None
    special = {name: text for name in SPECIAL if (text := _text(settings.get(name)))}
    ends = special.get("eos_token", "none")
    try:
        template = _template(folder, settings)
    except (OSError, ValueError) as error:
        return FirstPrompt(model, "", {}, (f"its chat template cannot be read ({type(error).__name__})",))
    if template is None:
        start = _start(tokenizer, settings, special)
        facts = {"template": "none", "BOS": start or "none", "ends": ends, "system": "not possible without a template"}
        return FirstPrompt(model, start + QUESTION, facts)
    variables = {**special, "date_string": "26 Jul 2024"}
    try:
        return _templated(model, template, variables, ends)
    except ERRORS as error:
        reason = " ".join(str(error).split())[:200]
        fault = f"its chat template cannot render a question ({type(error).__name__}: {reason}); mend chat_template"
        return FirstPrompt(model, "", {"template": "cannot be rendered"}, (fault,))


def _templated(model: str, template: str, variables: Mapping[str, str], ends: str) -> FirstPrompt:
    opened = render(template, [ASKED], generation=True, **variables)
    header = ignored_header(template, variables)
    dropped = drops_system(template, variables)
    answered = [ASKED, {"role": "assistant", "content": PROBE}]
    tail = render(template, answered, generation=False, **variables).rpartition(PROBE)[2].strip()
    bos = variables.get("bos_token")
    facts = {
        "template": f"of {len(template):,} characters",
        "BOS": bos if bos and opened.startswith(bos) else "none",
        "ends": tail or ends,
        "system": "dropped" if dropped else _system(template, variables),
        "generation prompt": _generation_prompt(template, variables, opened, header),
        "thinking": _thinking(template, variables, opened),
    }
    faults = []
    if dropped:
        faults.append("its chat template leaves system messages out: rows that have one are refused")
    if header:
        faults.append(
            f"its chat template ignores add_generation_prompt: {header!r} is put before responses here; other tools "
            "that serve the model will not do so"
        )
    return FirstPrompt(model, opened + header, facts, tuple(faults))


def _system(template: str, variables: Mapping[str, str]) -> str:
    try:
        render(template, [{"role": "system", "content": PROBE}, ASKED], generation=True, **variables)
    except ERRORS:
        return "refused"
    return "kept"


def _generation_prompt(template: str, variables: Mapping[str, str], opened: str, header: str) -> str:
    without = render(template, [ASKED], generation=False, **variables)
    added = header or (opened[len(without) :] if opened.startswith(without) else "")
    return repr(added) if added else "none"


def _thinking(template: str, variables: Mapping[str, str], opened: str) -> str:
    thought = {"role": "assistant", "content": f"{THOUGHT}{PROBE}"}
    try:
        text = render(template, [ASKED, thought, ASKED], generation=True, **variables)
    except ERRORS:
        return "unknown: one turn alone is rendered"
    earlier = "kept in earlier turns" if THOUGHT.strip() in text else "dropped from earlier turns"
    tail = opened.rpartition(QUESTION)[2]
    if "<think>" in tail:
        return f"{'closed' if '</think>' in tail else 'opened'} by the prompt, {earlier}"
    return earlier


def _template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """Return the chat template as transformers looks for it: the file before the setting, the default of several."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {one.get("name"): one.get("template") for one in template if isinstance(one, Mapping)}
        template = named.get("default")
    return template if isinstance(template, str) and template else None


def _start(tokenizer: Mapping[str, Any], settings: Mapping[str, Any], special: Mapping[str, str]) -> str:
    """Return the marks that the tokenizer puts before a plain text."""
    for processor in _processors(tokenizer.get("post_processor")):
        kind = processor.get("type")
        if kind == "TemplateProcessing" and isinstance(processor.get("single"), list):
            marks = []
            for piece in processor["single"]:
                if not isinstance(piece, Mapping) or not isinstance(mark := piece.get("SpecialToken"), Mapping):
                    break
                marks.append(str(mark.get("id")))
            return "".join(marks)
        if kind in ("BertProcessing", "RobertaProcessing") and isinstance(processor.get("cls"), list):
            return str(processor["cls"][0])
    return special.get("bos_token", "") if settings.get("add_bos_token") is True else ""


def _processors(value: Any) -> list[Mapping[str, Any]]:
    if not isinstance(value, Mapping):
        return []
    parts = value.get("processors")
    return [one for one in parts if isinstance(one, Mapping)] if isinstance(parts, list) else [value]


def _text(value: Any) -> str | None:
    text = value.get("content") if isinstance(value, Mapping) else value
    return text if isinstance(text, str) else None


def _json(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file() or path.stat().st_size > MAX_JSON_BYTES:
            return {}
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}

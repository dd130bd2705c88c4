"""What plan says of a model's prompts is what its tokenizer makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.contract.prompt_layout import QUESTION
from components.modeling.text.prompting import encode_prompt
from pipelines.plan.advice import advice
from pipelines.plan.first_prompts import first_prompt, first_prompts
from pipelines.recipe.recipe import load_recipe
from tests.modeling.text.test_text_start import CHATML, KINDS, tokenizer_of

NO_GENERATION = CHATML.partition("{% if add")[0]
DROPS = CHATML.replace("{% for m in messages %}", "{% for m in messages if m['role'] != 'system' %}")
FORGETS = CHATML.replace("{{ m['content'] }}", "{{ m['content'].split('</think>')[-1] }}")
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}"


@pytest.mark.parametrize("template", [None, CHATML, "{{ bos_token }}" + CHATML, NO_GENERATION], ids=range(4))
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "llama 2"])
def test_the_text_shown_is_the_text_encoded(kind: str, template: str | None, tmp_path: Path) -> None:
    tokenizer = tokenizer_of(KINDS[kind], template)
    tokenizer.save_pretrained(tmp_path)
    shown = first_prompt(tmp_path, "m")
    assert shown is not None
    assert shown.text == tokenizer.decode(encode_prompt(tokenizer, QUESTION))
    assert (shown.facts["BOS"] == "none") == ("<bos>" not in shown.text)


@pytest.mark.parametrize(
    ("template", "name", "expected"),
    [
        (CHATML, "system", "kept"),
        (DROPS, "system", "dropped"),
        (CHATML + "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}", "system", "refused"),
        (CHATML, "ends", "<|im_end|>"),
        (None, "ends", "<eos>"),
        (CHATML, "generation prompt", r"'<|im_start|>assistant\n'"),
        (CHATML, "thinking", "kept in earlier turns"),
        (FORGETS, "thinking", "dropped from earlier turns"),
        (CHATML.replace("assistant\n{%", "assistant\n<think>\n{%"), "thinking", "opened by the prompt, kept"),
    ],
)
def test_facts(template: str | None, name: str, expected: str, tmp_path: Path) -> None:
    tokenizer_of(KINDS["qwen"], template).save_pretrained(tmp_path)
    shown = first_prompt(tmp_path, "m")
    assert shown is not None
    assert shown.facts[name].startswith(expected)
    assert "\n" not in shown.line


def test_plan_and_validate_say_it_of_a_recipes_models(tmp_path: Path) -> None:
    lines = []
    for name, template in (("drops", DROPS), ("ignores", NO_GENERATION), ("endless", ENDLESS)):
        folder = tmp_path / name
        tokenizer_of(KINDS["qwen"], template).save_pretrained(folder)
        (folder / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
        lines.append(f'  {name}: {{uses: sft, in: {{model: "file:{folder}", dataset: "{tmp_path}/rows.jsonl"}}}}')
    (tmp_path / "rows.jsonl").write_text("{}\n")
    (tmp_path / "r.yaml").write_text("name: r\nstages:\n" + "\n".join(lines) + "\n")
    recipe = load_recipe(str(tmp_path / "r.yaml"))
    assert [prompt.model.rpartition("/")[2] for prompt in first_prompts(recipe)] == ["drops", "ignores", "endless"]
    notes = advice(recipe)
    for stage, said in (("drops", "leaves system"), ("ignores", "ignores add_gen"), ("endless", "more steps")):
        assert len([line for line in notes if line.startswith(f"{stage}: ") and said in line]) == 1

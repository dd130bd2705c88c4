"""Recipes: what their words mean, and that every mistake is found at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.contract.errors import InputError
from components.contract.job import Approval, Expectation, Retry
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.writing import load, messages, sources, stages, with_stages, write

pytestmark = pytest.mark.usefixtures("toy_catalog")

TINY = str(Path(__file__).parents[1] / "recipes" / "tiny.yaml")


def test_the_tiny_recipe() -> None:
    recipe = load_recipe(TINY)
    found = stages(recipe)
    rl = found["rl"]

    assert [stage.name for stage in recipe.stages] == ["base", "data", "sft", "rl", "before", "after"]
    assert recipe.params == {"rl_steps": 80, "steps": 20}
    assert sources(rl) == {"model": ["sft.model"], "dataset": ["data.dataset"]}
    assert rl.params == {"method": "dapo", "steps": 80, "optimizer": {"name": "muon"}}
    assert (rl.pool, rl.timeout_seconds, rl.retry) == ("h100x8", 7200.0, Retry(retries=2, backoff_seconds=2.0))
    assert rl.gate == ["pass_rate >= 0.1"]
    assert rl.expect == [
        Expectation(port="rollouts", type="expect_table_row_count_to_be_between", kwargs={"min_value": 1})
    ]
    assert (rl.register_as, rl.register_aliases) == ("tiny-rl", ["candidate"])
    assert found["before"].params == {"samples": 16}
    assert found["after"].when == "before.pass_at_1 < 0.9 and 80 > 1"
    assert found["after"].after == ["before", "rl", "data", "sft"]
    assert {stage.seed for stage in recipe.stages} == {7}


def test_all_mistakes_are_found_in_the_order_of_their_lines(tmp_path: Path) -> None:
    text = """
    name: many
    sumary: typo
    seed: -1
    defaults: {pool: nowhere}
    stages:
      base: {uses: pretrain, with: {layers: 0, colour: red}, retries: -1}
      data: {uses: curate, in: {policy: base.metrics}, after: [nobody], gate: loss < 1}
      sft: {uses: stf}
      rl: {uses: rl, in: {model: "sft.anything", dataset: base.model}, with: {steps: "${params.x}", method: ppo}}
    """
    assert [line.partition(" ")[0] for line in messages(tmp_path, text)] == [
        "2:1",  # sumary
        "3:7",  # seed
        "4:18",  # pool, once though three stages would use it
        "6:41",  # layers
        "6:44",  # colour
        "6:67",  # retries
        "7:37",  # base has no metrics
        "7:60",  # after nobody
        "7:75",  # curate has no loss
        "8:15",  # stf
        "9:55",  # a Model for a Dataset
        "9:82",  # params.x; its value is not judged
        "9:105",  # ppo
    ]


def test_a_message_has_file_line_value_expectation_and_near_miss(tmp_path: Path) -> None:
    path = write(tmp_path, with_stages("sft: {uses: sft, in: {model: base.modl, dataset: data.dataset}}"))
    with pytest.raises(InputError) as caught:
        load_recipe(str(path))
    assert str(caught.value) == (
        f"{path}:5:32: unknown output of stage 'base': 'modl'; did you mean 'model'? (known: model)"
    )
    assert caught.value.exit_code == 2


def test_references(tmp_path: Path) -> None:
    text = with_stages(
        """
        sft:
          uses: sft
          in: {model: base.model, dataset: data.dataset}
          with:
            steps: "${params.small}"
            notes:
              a: "${params.sizes.big}-${seed}"
              b: "$${params.small} costs $5"
              c: "${params.${params.which}}"
              d: "${params.all}"
        """,
        "seed: 3\nparams: {small: 2, which: small, sizes: {big: 1e3}, all: '${params.small}${params.which}', on: true}",
    )
    sft = stages(load(tmp_path, text.replace('c: "${params.${params.which}}"', 'c: "x${params.${params.which}}"')))[
        "sft"
    ]
    assert sft.params == {
        "steps": 2,
        "notes": {"a": "1000.0-3", "b": "${params.small} costs $5", "c": "x2", "d": "2small"},
    }


def test_values_keep_their_type(tmp_path: Path) -> None:
    head = "params: {range: [0.1, 0.9], sources: [{name: squares, count: 3}], off: false}"
    text = (
        head
        + """
stages:
  data: {uses: curate, with: {keep_pass_rate: "${params.range}", sources: "${params.sources}"}}
  base: {uses: pretrain, with: {layers: 2, tokenizer: "shuffle-${params.off}"}}
"""
    )
    found = stages(load(tmp_path, text))
    assert found["data"].params == {"keep_pass_rate": [0.1, 0.9], "sources": [{"name": "squares", "count": 3}]}
    assert found["base"].params["tokenizer"] == "shuffle-false"


def test_a_gate_compares_with_an_earlier_stage_and_waits_for_it(tmp_path: Path) -> None:
    text = with_stages(
        """
        first: {uses: sft, in: {model: base.model, dataset: data.dataset}, matrix: {seed: [1, 2]}}
        second:
          uses: sft
          in: {model: base.model, dataset: data.dataset}
          gate: ["loss <= first[seed=2].loss + params.margin", "second.loss < first[seed=1].loss"]
        """,
        "params: {margin: 0.1}",
    )
    second = stages(load(tmp_path, text))["second"]
    assert second.gate == ["loss <= first-seed-2.loss + 0.1", "loss < first-seed-1.loss"]
    assert {"first-seed-1", "first-seed-2"} <= set(second.after)


def test_words_of_a_stage(tmp_path: Path) -> None:
    text = with_stages(
        """
        one: {uses: sft, in: {model: base.model, dataset: [data.dataset, data.heldout]}, approve: true, timeout: 90s}
        two:
          uses: sft
          in: {model: hf:some/model, dataset: "s3://bucket/rows"}
          seed: 11
          retries: 1
          backoff: 500ms
          approve: {message: Spend it?, timeout: 1d, on_timeout: approve}
          after: one
          gate: [loss < 3, "loss_A > params.low and two.loss < 5"]
          register: my-model
        """,
        "params: {low: -1}\ndefaults: {retries: 4, timeout: 10, with: {sft: {steps: 7, notes: {a: x}}}}",
    )
    found = stages(load(tmp_path, text))
    one, two = found["one"], found["two"]
    assert one.approve == Approval()
    assert one.timeout_seconds == 90
    assert one.retry == Retry(retries=4)
    assert one.params == {"steps": 7, "notes": {"a": "x"}}
    assert two.approve == Approval(message="Spend it?", timeout_seconds=86_400, on_timeout="approve")
    assert two.retry == Retry(retries=1, backoff_seconds=0.5)
    assert (two.seed, two.timeout_seconds) == (11, 10)
    assert sources(two) == {"model": ["hf:some/model"], "dataset": ["s3://bucket/rows"]}
    assert two.gate == ["loss < 3", "loss_A > (-1) and loss < 5"]
    assert two.after == ["one"]
    assert (two.register_as, two.register_aliases) == ("my-model", ["candidate"])


def test_local_paths_are_those_beside_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.jsonl").write_text("{}\n")
    recipe = write(tmp_path, with_stages("sft: {uses: sft, in: {model: /models/x, dataset: ./rows.jsonl}}"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    found = sources(stages(load_recipe(str(recipe)))["sft"])
    assert found == {"model": ["/models/x"], "dataset": [str(tmp_path / "rows.jsonl")]}


@pytest.mark.parametrize(
    ("when", "names"),
    [
        ("params.go", ["base", "data", "ev"]),
        ("params.steps > 5", ["base", "data", "sft", "ev"]),
        ("not params.go and 'x' == params.mode", ["base", "data", "sft", "ev"]),
        ("false", ["base", "data", "ev"]),
    ],
)
def test_a_condition_known_before_the_run_leaves_stages_out(tmp_path: Path, when: str, names: list[str]) -> None:
    text = with_stages(
        f"""
        sft: {{uses: sft, in: {{model: base.model, dataset: data.dataset}}, when: "{when}"}}
        gone: {{uses: evaluate, in: {{model: sft.model, dataset: data.heldout}}}}
        later: {{uses: rl, in: {{model: base.model, dataset: data.dataset}}, when: gone.pass_at_1 > 0.5}}
        ev:
          uses: evaluate
          in: {{model: base.model, dataset: data.heldout, against: [base.model, [sft.model, none]]}}
        asks: {{uses: evaluate, in: {{model: base.model, dataset: data.heldout, against: [sft.model, base.model]}}}}
        """,
        "params: {go: false, steps: 10, mode: x}",
    )
    recipe = load(tmp_path, text)
    kept = [stage.name for stage in recipe.stages]
    if "sft" in names:
        assert kept == ["base", "data", "sft", "gone", "later", "ev", "asks"]
        return
    assert kept == names
    assert {left.name: left.reason for left in recipe.left_out} == {
        "sft": f"when is false: {when}",
        "gone": "input model: sft is left out",
        "later": "when: gone is left out",
        "asks": "input against: sft is left out",
    }
    assert sources(stages(recipe)["ev"])["against"] == ["base.model"]


def test_typed_parameters(tmp_path: Path) -> None:
    head = """
    params:
      steps: {default: 5, title: Steps, doc: How long., min: 1, max: 10, type: int}
      method: {default: grpo, choices: [grpo, dapo]}
      table: {a: 1}
    """
    recipe = load(tmp_path, with_stages("", head), "steps=7", "method=dapo", "table={b: 2}")
    assert recipe.params == {"steps": 7, "method": "dapo", "table": {"a": 1, "b": 2}}
    steps = recipe.parameters[0]
    assert (steps.name, steps.value, steps.words.title, steps.words.doc) == ("steps", 7, "Steps", "How long.")
    assert messages(tmp_path, with_stages("", head), "steps=11", "method=gpro") == [
        "--set method=gpro: params.method: got 'gpro', expected one of grpo, dapo; did you mean 'grpo'?",
        "--set steps=11: params.steps: got 11, expected at most 10",
    ]


def test_order_is_that_of_the_file_where_nothing_else_decides(tmp_path: Path) -> None:
    text = """
    stages:
      z: {uses: pretrain, with: {layers: 1}}
      last: {uses: sft, in: {model: first.model, dataset: a.dataset}}
      a: {uses: curate}
      first: {uses: pretrain, with: {layers: 1}, after: [z]}
    """
    assert [stage.name for stage in load(tmp_path, text).stages] == ["z", "a", "first", "last"]


def test_every_cycle_is_named(tmp_path: Path) -> None:
    text = with_stages(
        """
        a: {uses: sft, in: {model: b.model, dataset: data.dataset}}
        b: {uses: sft, in: {model: c.model, dataset: data.dataset}}
        c: {uses: sft, in: {model: a.model, dataset: data.dataset}}
        d: {uses: evaluate, in: {model: base.model, dataset: data.heldout}, when: e.pass_at_1 > 0}
        e: {uses: evaluate, in: {model: base.model, dataset: data.heldout}, after: d}
        """
    )
    assert messages(tmp_path, text) == [
        "5:30 stages need one another in a cycle: a -> b -> c -> a",
        "8:77 stages need one another in a cycle: d -> e -> d",
    ]

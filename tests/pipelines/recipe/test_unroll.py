"""matrix and repeat, worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.writing import load, messages, sources, stages, with_stages

pytestmark = pytest.mark.usefixtures("toy_catalog")

SFT = "sft: {uses: sft, in: {model: base.model, dataset: data.dataset}}"


def test_a_matrix_clones_a_stage(tmp_path: Path) -> None:
    text = with_stages(
        """
        rl:
          uses: rl
          in: {model: base.model, dataset: data.dataset}
          matrix: {method: [grpo, dapo], steps: [5, 7.5, -1]}
          with: {method: "${matrix.method}", notes: {steps: "${matrix.steps} steps"}}
        """
    )
    found = stages(load(tmp_path, text))
    assert list(found)[2:] == [
        "rl-method-grpo-steps-5",
        "rl-method-grpo-steps-7-5",
        "rl-method-grpo-steps-m1",
        "rl-method-dapo-steps-5",
        "rl-method-dapo-steps-7-5",
        "rl-method-dapo-steps-m1",
    ]
    cell = found["rl-method-dapo-steps-7-5"]
    assert cell.params == {"method": "dapo", "notes": {"steps": "7.5 steps"}}
    assert cell.labels == {"method": "dapo", "steps": 7.5}
    assert (cell.group, found["base"].group) == ("rl", None)


def test_cells_are_paired_collected_and_picked(tmp_path: Path) -> None:
    text = with_stages(
        """
        rl:
          uses: rl
          in: {model: base.model, dataset: data.dataset}
          matrix: {method: [grpo, dapo]}
          with: {method: "${matrix.method}"}
        ev:
          uses: evaluate
          in: {model: rl.model, dataset: data.heldout, against: rl.model}
          matrix: {method: [grpo, dapo], samples: [1, 2]}
          with: {samples: "${matrix.samples}"}
        all: {uses: collect, in: {metrics: ev.metrics}}
        some: {uses: collect, in: {metrics: ["ev[method=dapo].metrics", "ev[method=grpo, samples=2].metrics"]}}
        one: {uses: sft, in: {model: "rl[method=dapo].model", dataset: data.dataset}, after: rl}
        """
    )
    found = stages(load(tmp_path, text))
    assert sources(found["ev-method-dapo-samples-1"]) == {
        "model": ["rl-method-dapo.model"],
        "dataset": ["data.heldout"],
        "against": ["rl-method-dapo.model"],  # the shared axis decides, though the port would take many
    }
    assert sources(found["all"])["metrics"] == [
        f"ev-method-{method}-samples-{samples}.metrics" for method in ("grpo", "dapo") for samples in (1, 2)
    ]
    assert sources(found["some"])["metrics"] == [
        "ev-method-dapo-samples-1.metrics",
        "ev-method-dapo-samples-2.metrics",
        "ev-method-grpo-samples-2.metrics",
    ]
    assert sources(found["one"])["model"] == ["rl-method-dapo.model"]
    assert found["one"].after == ["rl-method-grpo", "rl-method-dapo", "data"]


def test_a_matrix_of_the_recipe_fans_out_every_stage_but_collectors(tmp_path: Path) -> None:
    text = with_stages(
        f"""
        {SFT}
        rl:
          uses: rl
          in: {{model: sft.model, dataset: data.dataset}}
          matrix: {{method: [grpo, dapo]}}
          with: {{method: "${{matrix.method}}", notes: {{seed: "of ${{seed}}"}}}}
        ev: {{uses: evaluate, in: {{model: "rl[method=dapo].model", dataset: data.heldout}}}}
        all: {{uses: collect, in: {{metrics: ev.metrics}}, matrix: none}}
        """,
        "seed: 9\nmatrix: {seed: [1, 2]}",
    )
    found = stages(load(tmp_path, text))
    assert len(found) == 2 + 2 + 2 + 4 + 2 + 1
    rl = found["rl-seed-2-method-dapo"]
    assert (rl.seed, rl.labels, rl.params["notes"]) == (2, {"seed": 2, "method": "dapo"}, {"seed": "of 2"})
    assert sources(rl) == {"model": ["sft-seed-2.model"], "dataset": ["data-seed-2.dataset"]}
    assert sources(found["ev-seed-1"])["model"] == ["rl-seed-1-method-dapo.model"]
    assert sources(found["all"])["metrics"] == ["ev-seed-1.metrics", "ev-seed-2.metrics"]
    assert (found["all"].seed, found["all"].group) == (9, None)


def test_an_axis_may_name_whole_settings(tmp_path: Path) -> None:
    text = """
    stages:
      base:
        uses: pretrain
        matrix: {size: {small: {layers: 1, vocabulary: digits}, big: {layers: 4, vocabulary: words}}}
        with: {layers: "${matrix.size.layers}", tokenizer: "${matrix.size.vocabulary}"}
    """
    found = stages(load(tmp_path, text))
    assert found["base-size-big"].params == {"layers": 4, "tokenizer": "words"}
    assert found["base-size-big"].labels == {"size": "big"}


def test_conditions_follow_the_cells(tmp_path: Path) -> None:
    text = with_stages(
        """
        ev: {uses: evaluate, in: {model: base.model, dataset: data.heldout}, matrix: {seed: [1, 2]}}
        sft:
          uses: sft
          in: {model: base.model, dataset: data.dataset}
          matrix: {seed: [1, 2]}
          when: ev.pass_at_1 < 0.5 and ev[seed=2].pass_at_4 < matrix.seed and seed != 1
        """
    )
    found = stages(load(tmp_path, text))
    assert found["sft-seed-1"].when == "ev-seed-1.pass_at_1 < 0.5 and ev-seed-2.pass_at_4 < 1 and 1 != 1"
    assert found["sft-seed-2"].when == "ev-seed-2.pass_at_1 < 0.5 and ev-seed-2.pass_at_4 < 2 and 2 != 1"
    assert found["sft-seed-1"].after == ["ev-seed-1", "ev-seed-2", "base", "data"]


LOOP = """
loop:
  repeat: "${params.rounds}"
  carry: {model: sft.model}
  yield: {model: rl.model, metrics: check.metrics}
  stages:
    fresh: {uses: curate, in: {policy: carry.model}}
    rl:
      uses: rl
      in: {model: carry.model, dataset: fresh.dataset}
      with: {steps: "${round}", notes: {round: "round ${round} of seed ${seed}"}}
    check: {uses: evaluate, in: {model: rl.model, dataset: data.heldout}, when: fresh.num_rows > 3}
final: {uses: evaluate, in: {model: loop.model, dataset: data.heldout}}
first: {uses: evaluate, in: {model: "loop[round=1].model", dataset: data.heldout}, after: loop}
"""


def test_a_repeat_is_unrolled(tmp_path: Path) -> None:
    found = stages(load(tmp_path, with_stages(SFT + LOOP, "params: {rounds: 3}")))
    assert [name for name in found if name.startswith("loop")] == [
        f"loop-{index}-{name}" for index in (1, 2, 3) for name in ("fresh", "rl", "check")
    ]
    assert sources(found["loop-1-fresh"]) == {"policy": ["sft.model"]}
    assert sources(found["loop-1-rl"]) == {"model": ["sft.model"], "dataset": ["loop-1-fresh.dataset"]}
    assert sources(found["loop-3-rl"]) == {"model": ["loop-2-rl.model"], "dataset": ["loop-3-fresh.dataset"]}
    assert sources(found["loop-3-check"]) == {"model": ["loop-3-rl.model"], "dataset": ["data.heldout"]}
    assert found["loop-3-check"].when == "loop-3-fresh.num_rows > 3"
    assert found["loop-2-rl"].params == {"steps": 2, "notes": {"round": "round 2 of seed 0"}}
    assert (found["loop-2-rl"].labels, found["loop-2-rl"].group) == ({"round": 2}, "loop.rl")
    assert sources(found["final"])["model"] == ["loop-3-rl.model"]
    assert sources(found["first"])["model"] == ["loop-1-rl.model"]
    assert {"loop-3-fresh", "loop-3-rl", "loop-3-check"} <= set(found["first"].after)


def test_a_repeat_under_a_matrix_keeps_to_its_cell(tmp_path: Path) -> None:
    text = with_stages(SFT + LOOP, "matrix: {seed: [4, 5]}\nparams: {rounds: 2}")
    found = stages(load(tmp_path, text))
    assert sources(found["loop-2-rl-seed-5"])["model"] == ["loop-1-rl-seed-5.model"]
    assert sources(found["loop-1-rl-seed-5"])["model"] == ["sft-seed-5.model"]
    assert sources(found["final-seed-4"])["model"] == ["loop-2-rl-seed-4.model"]
    assert found["loop-2-rl-seed-5"].labels == {"round": 2, "seed": 5}


def test_repeats_nest(tmp_path: Path) -> None:
    text = with_stages(
        """
        outer:
          repeat: 2
          carry: {model: base.model}
          yield: {model: inner.model}
          stages:
            inner:
              repeat: 2
              carry: {model: carry.model}
              yield: {model: rl.model}
              stages:
                rl: {uses: rl, in: {model: carry.model, dataset: data.dataset}, with: {steps: "${round}"}}
        """
    )
    found = stages(load(tmp_path, text))
    chain = ["outer-1-inner-1-rl", "outer-1-inner-2-rl", "outer-2-inner-1-rl", "outer-2-inner-2-rl"]
    assert [name for name in found if "rl" in name] == chain
    assert [sources(found[name])["model"] for name in chain] == [
        ["base.model"],
        *([f"{name}.model"] for name in chain[:3]),
    ]
    assert found[chain[2]].labels == {"round": 2, "round-2": 1}
    assert found[chain[1]].params == {"steps": 2}


def test_a_carry_may_start_from_a_uri(tmp_path: Path) -> None:
    text = with_stages(
        """
        loop:
          repeat: 2
          carry: {model: "hf:some/model"}
          yield: {model: rl.model}
          stages:
            rl: {uses: rl, in: {model: carry.model, dataset: data.dataset}}
        """
    )
    found = stages(load(tmp_path, text))
    assert sources(found["loop-1-rl"])["model"] == ["hf:some/model"]
    assert sources(found["loop-2-rl"])["model"] == ["loop-1-rl.model"]


@pytest.mark.parametrize(
    ("stages_text", "expected"),
    [
        (
            "loop: {repeat: 2, carry: {model: loop.model}, yield: {model: rl.model}, stages: {rl: {uses: rl, "
            "in: {model: carry.model, dataset: data.dataset}}}}",
            ["5:111 stages need one another in a cycle: loop.rl -> loop.rl"],
        ),
        (
            "loop: {repeat: 2, yield: {model: rl.model, x: rl.nothing}, stages: {rl: {uses: rl, "
            "in: {model: base.model, dataset: data.dataset}}}}\n"
            "ev: {uses: evaluate, in: {model: loop.x, dataset: data.heldout}}",
            ["6:36 unknown output of stage 'loop.rl': 'nothing' (known: model, checkpoints, rollouts)"],
        ),
        (
            "loop: {repeat: 2, stages: {rl: {uses: rl, in: {model: base.model, dataset: data.dataset}}}}\n"
            'ev: {uses: evaluate, in: {model: "loop[round=3].x", dataset: data.heldout}}',
            ["6:36 'loop[round=3].x': its rounds are 1 to 2"],
        ),
        (
            "a: {uses: pretrain, with: {layers: 1}, matrix: {n: [1, 2]}}\n"
            "b: {uses: sft, in: {model: a.model, dataset: data.dataset}, matrix: {n: [2, 3]}}",
            ["6:30 'a.model': 'a' has no cell n=3 (it has: n=1; n=2)"],
        ),
        (
            "a: {uses: pretrain, with: {layers: 1}, matrix: {n: [1, 2]}}\n"
            "b: {uses: sft, in: {model: base.model, dataset: data.dataset}, when: a.loss < 3}",
            [
                "6:72 'a' is 2 stages (its matrix: n) and 'when' takes one: give this stage the same matrix to pair "
                "them, or pick one, such as 'a[n=1].loss'"
            ],
        ),
    ],
)
def test_what_cannot_be_unrolled(tmp_path: Path, stages_text: str, expected: list[str]) -> None:
    assert messages(tmp_path, with_stages(stages_text)) == expected

"""What the merge stage refuses, each in one line: other models, broken and hostile files, settings that do not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from components.contract.component import Given
from components.contract.errors import InputError
from components.contract.model_folders.headers import MERGED, read_headers
from components.contract.operators import OperatorSpec
from components.merge.component import COMPONENT, refuses_models
from tests.stages.merge.folders import SHAPES, folder_of, merge, read_model, tensors, write_model


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"config": {"hidden_size": 8}},
            r'models\[0\] and models\[1\] differ in config.json: "hidden_size" is 4 and 8',
        ),
        ({"config": {"rope_scaling": {"factor": 2.0}}}, '"rope_scaling.factor" is not there and 2.0'),
        ({"vocabulary": {"a": 0, "b": 2, "c": 1}}, r'tokenizers of models\[0\] and models\[1\] differ: "b" is 1 and 2'),
        ({"vocabulary": {"a": 0, "b": 1}}, '"c" is 2 and not there'),
        ({"config": {"quantization_config": {"bits": 4}}}, r"models\[1\] is quantised"),
    ],
)
def test_another_architecture_or_vocabulary_is_refused_with_the_first_difference(
    tmp_path: Path, other: dict[str, Any], message: str
) -> None:
    models = [folder_of(tmp_path, "a", 1), folder_of(tmp_path, "b", 2, **other)]
    with pytest.raises(InputError, match=message) as caught:
        merge(tmp_path / "merge", models, merger="linear")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm": torch.ones(5)}, r"norm is \[4\] in models\[0\] and \[5\] in models\[1\]"),
        ({"more": torch.ones(1)}, r"more is in models\[1\] and not in models\[0\]"),
        ({"norm": torch.ones(4, dtype=torch.int64)}, r"norm is F32 in models\[0\] and I64 in models\[1\]"),
    ],
)
def test_other_tensors_are_refused(tmp_path: Path, change: dict[str, torch.Tensor], message: str) -> None:
    models = [folder_of(tmp_path, "a", 1), write_model(tmp_path / "b", {**tensors(2, **SHAPES), **change})]
    with pytest.raises(InputError, match=message):
        merge(tmp_path / "merge", models, merger="linear")


def test_what_says_nothing_of_the_architecture_may_differ(tmp_path: Path) -> None:
    config = {
        "eos_token_id": 7,
        "torch_dtype": "float32",
        "max_position_embeddings": 9,
        "use_sliding_window": False,
        "sliding_window": 5,
        "use_mrope": False,
    }
    models = [
        folder_of(tmp_path, "a", 1, config={"use_sliding_window": False}),
        folder_of(tmp_path, "b", 2, config=config),
    ]
    merge(tmp_path / "merge", models, merger="linear")
    other = folder_of(tmp_path, "c", 2, vocabulary={"a": 0, "b": 1, "d": 2})
    found = merge(tmp_path / "first", [models[0], other], merger="linear", tokenizers="first").outputs["model"]
    assert (found / "tokenizer.json").read_bytes() == (models[0] / "tokenizer.json").read_bytes()


def test_whole_numbers_must_be_equal(tmp_path: Path) -> None:
    first, second = (
        write_model(tmp_path / str(shift), {"w": torch.ones(2), "ids": torch.arange(3) + shift}) for shift in (0, 1)
    )
    kept = read_model(merge(tmp_path / "same", [first, first], merger="linear").outputs["model"])
    assert kept["ids"].tolist() == [0, 1, 2]
    with pytest.raises(InputError, match=r"ids has whole numbers \(I64\) that differ"):
        merge(tmp_path / "merge", [first, second], merger="linear")


def test_a_weight_that_is_no_number_ends_the_stage_and_leaves_no_file(tmp_path: Path) -> None:
    weights = tensors(1, **SHAPES)
    broken = write_model(tmp_path / "broken", {**weights, "norm": torch.tensor([1.0, float("nan"), 0.0, 0.0])})
    with pytest.raises(InputError, match="norm: a merged weight is infinite or no number in F32"):
        merge(tmp_path / "merge", [broken], merger="linear")
    assert not list((tmp_path / "merge").rglob("*.safetensors*"))
    large = write_model(tmp_path / "large", {"w": torch.full((2,), 70_000.0)})
    with pytest.raises(InputError, match="infinite or no number in F16"):
        merge(tmp_path / "float16", [large], merger="linear", dtype="float16")


def _break(folder: Path, how: str) -> None:
    path = folder / "model.safetensors"
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    if how == "cut":
        path.write_bytes(raw[:-1])
    elif how == "long":
        path.write_bytes((1 << 60).to_bytes(8, "little") + raw[8:])
    elif how == "no json":
        path.write_bytes(raw[:8] + b"[" * length + raw[8 + length :])
    elif how == "gone":
        path.rename(folder / "pytorch_model.bin")
    else:
        header["norm"].update(
            {
                "overlong": {"shape": [1 << 40]},
                "negative": {"data_offsets": [-8, 8]},
                "odd": {"dtype": "F8_E4M3"},
                "listed": {"dtype": ["F32"]},
                "two lines": {"dtype": "F\n32"},
                "half": {},
                "called": {},
            }[how]
        )
        names = {"half": "\ud800", "called": "a\nb"}
        header = {names.get(how, name) if name == "norm" else name: entry for name, entry in header.items()}
        text = json.dumps(header).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("cut", "does not lie where the header says"),
        ("long", "is no safetensors file"),
        ("no json", "is no safetensors file"),
        ("gone", "weights must be safetensors"),
        ("overlong", "norm does not lie where the header says"),
        ("negative", "norm does not lie where the header says"),
        ("odd", "norm is F8_E4M3, which is not merged"),
        ("listed", r"norm is \['F32'\], which is not merged"),
        ("two lines", r"norm is 'F\\n32', which is not merged"),
        ("half", r"a tensor is called '\\ud800', which is no name"),
        ("called", r"a tensor is called 'a\\nb', which is no name"),
    ],
)
def test_broken_and_hostile_files_get_one_line(tmp_path: Path, how: str, message: str) -> None:
    models = [folder_of(tmp_path, "a", 1), folder_of(tmp_path, "b", 2)]
    for model in models if how in ("half", "called") else models[1:]:
        _break(model, how)
    with pytest.raises(InputError, match=message) as caught:
        merge(tmp_path / "merge", models, merger="linear")
    assert "\n" not in str(caught.value)


def test_an_index_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "a", 1, shards={"model-1.safetensors": sorted(SHAPES)})
    save_file({"x": torch.ones(1)}, tmp_path / "outside.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": "../outside.safetensors"}}))
    with pytest.raises(InputError, match=r"has no \.\./outside\.safetensors"):
        read_headers(folder, MERGED)


@pytest.mark.parametrize(
    ("merger", "count", "base", "message"),
    [
        ("slerp", 3, False, "merger 'slerp': it merges 2 models, and input 'models' has 3"),
        ("ties", 2, False, "merger 'ties' needs input 'base'"),
        ({"name": "linear", "weights": [1.0]}, 2, False, "weights has 1 numbers, and input 'models' has 2"),
        ({"name": "linear", "by_tensor": {"*.up": [1.0]}}, 2, False, r"\*.up has 1 numbers"),
    ],
)
def test_a_merger_that_does_not_fit_is_told(tmp_path: Path, merger: Any, count: int, base: bool, message: str) -> None:
    models = [folder_of(tmp_path, f"m{number}", number) for number in range(count)]
    with pytest.raises(InputError, match=message):
        merge(tmp_path / "merge", models, merger=merger)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"merger": "linnear"}, "did you mean 'linear'"),
        ({"merger": {"name": "linear", "weights": [1, -1]}}, "weights sum to 0"),
        ({"merger": {"name": "linear", "weights": [0.1, 0.2, -0.3]}}, "weights sum to 0"),
        ({"merger": {"name": "linear", "by_tensor": {"*": [0.0, 0.0]}}}, "weights sum to 0"),
        ({"merger": {"name": "slerp", "parallel": 1}}, "parallel: Input should be less than 1"),
        ({"merger": "linear", "sweep": {"name": ["linear", "slerp"]}}, "sweep: 'name' is the merger itself"),
        ({"merger": {"name": "dare", "drop": 1.0}}, "drop"),
        ({"merger": {"name": "ties", "keep": 0}}, "keep"),
        ({"merger": "slerp", "sweep": {"t": [0.5, 2.0]}}, "t: Input should be less than or equal to 1"),
        ({"merger": "slerp", "sweep": {"tt": [0.5]}}, "tt: Extra inputs are not permitted"),
        ({"merger": "slerp", "sweep": {"t": []}}, "sweep.t: no values"),
        ({"merger": "slerp", "sweep": {"t": [0.5, 0.5]}}, "t=0.5 is there twice"),
        ({"merger": "slerp", "sweep": {"t": [x / 100 for x in range(65)]}}, "65 combinations"),
    ],
)
def test_wrong_parameters_get_one_line(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        COMPONENT.params.model_validate(params)


def test_what_is_here_is_compared_before_a_run(tmp_path: Path) -> None:
    folders = folder_of(tmp_path, "a", 1), folder_of(tmp_path, "b", 2, config={"hidden_size": 8})
    first, other = (Given(str(folder), folder) for folder in folders)
    params = COMPONENT.params.model_validate({"merger": "linear"})
    assert list(refuses_models(params, {"models": [first, None]})) == []  # one is made by the run
    (why,) = refuses_models(params, {"models": [first, other]})
    assert '"hidden_size" is 4 and 8' in why
    (why,) = refuses_models(params, {"models": [first], "base": [other]})
    assert "models[0] and base differ" in why
    slerp = COMPONENT.params.model_validate({"merger": "slerp"})
    (why,) = refuses_models(slerp, {"models": [None, None, None]})
    assert "input 'models' has 3" in why


def test_an_operator_that_returns_another_shape_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from components.merge.config import MergerConfig\n"
        "class MineConfig(MergerConfig):\n    pass\n"
        "def linear(stack, *, config: MineConfig):\n    return lambda block: block.models[0][:0]\n"
    )
    import importlib.util

    spec = importlib.util.spec_from_file_location("mine", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from components.merge.moves import Moves
    from components.merge.run import _merge
    from components.merge.stack import Family

    bound = OperatorSpec(name="linear").resolve("merger")
    broken = type(bound)(bound.slot, "linear", module.linear, bound.config)
    family = Family([read_headers(folder_of(tmp_path, "a", 1))])
    stack = next(family.stacks())
    moves = Moves(["a"], [stack.name], has_base=False)
    with pytest.raises(Exception, match=r"merger operator 'linear' returned \[0, 4\] for rows of model.embed.weight"):
        _merge(stack, broken, None, None, moves, "x")  # type: ignore[arg-type]

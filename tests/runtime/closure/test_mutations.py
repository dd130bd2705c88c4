"""Whatever is edited: exactly the stages that use it run again, in every recipe; words and estimates rerun nothing.

What a stage uses is told by usage.py from recipes and import lines. The first tests compare that with the code in each
fingerprint, operator by operator and component by component; the last ones edit files of a copy of the tree.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from components.contract.names import Entry
from components.contract.operators import OperatorRefused, OperatorSpec
from components.contract.registry import component_targets, components, operators
from components.rl.params import RLParams
from components.rl.slots import step_slots
from components.runtime.closure.walk import Closures
from components.runtime.ledger.fingerprint import Fingerprint, fingerprint
from tests.runtime.closure.usage import OPERATORS, ROOT, all_stages, files_of, reach

COMPONENTS = component_targets()
TARGETS = {(slot, name): target for slot, names in OPERATORS.items() for name, target in names.items()}
FILES = {key: f"{target.partition(':')[0].replace('.', '/')}.py" for key, target in TARGETS.items()}
BORROWED: dict[str, tuple[str, ...]] = {
    "components/tasks/verifiers/numeric.py": ("audit_reward", "curate", "synthesize"),
    "components/tasks/sources/rules.py": (),
}
"""Files of operators that these components import whatever is chosen."""
REQUIRED: dict[str, dict[str, Any]] = {
    "anneal": {"final_temperature": 0.5},
    "gate": {"by": ["overlong"]},
    "constrained": {"by": {"overlong": 0.0}},
    "constrained_rank": {"by": {"overlong": 0.0}},
    "veto": {"by": ["overlong"]},
    "trusted": {"part": "overlong"},
    "mixed": {"by": {"A": "overlong"}},
    "fade": {"reward": "overlong"},
    "mixture_of_judges": {"by": {"A": [{"name": "a", "reward": "overlong"}]}},
    "crpg": {"kl_max": 1.0},
    "crraft": {"kl_max": 1.0},
    "group_by_domain": {"sizes": {"A": 1}},
    "roles": {"turns": [{"role": "answer"}]},
}
CLOSURES = Closures()


@cache
def marks() -> Mapping[str, Fingerprint]:
    return {
        name: fingerprint(stage.component, stage.config, {"dataset": [], "datasets": []}, stage.seed,
                          verifiers=verifiers, closures=CLOSURES)
        for name, (stage, _, verifiers) in all_stages().items()
    }  # fmt: skip


def users_of(file: str) -> set[str]:
    return {name for name, mark in marks().items() if file in mark.parts["code"]}


def test_an_operator_is_code_of_exactly_the_stages_that_use_it() -> None:
    stages = all_stages()
    used = {name: files_of(chosen) | reach(_run(stage.component)) for name, (stage, chosen, _) in stages.items()}
    wrong = {}
    for file in sorted(set(FILES.values())):
        expected = {name for name, files in used.items() if file in files}
        if (found := users_of(file)) != expected:
            wrong[file] = sorted(found ^ expected)[:3]
    assert not wrong
    chosen = {operator for _, found, _ in stages.values() for operator in found}
    assert len(TARGETS) > 90 and len(stages) > 150 and len(chosen) > 70  # what was checked: nothing vanished


def _run(component: Any) -> str:
    return component.run.partition(":")[0]


def test_no_component_runs_an_operator_that_nobody_chose() -> None:
    for name in COMPONENTS:
        reached = reach(_run(components().get(name))) & set(FILES.values())
        assert {file for file in reached if name not in BORROWED.get(file, ())} == set(), name


def test_every_operator_of_rl_joins_where_it_is_chosen_and_nowhere_else() -> None:
    """Those that no recipe has, too; of those with keys that have no default, recipes have all."""
    checked = []
    annotated = {"rover": "vocabulary_means", "elastic_clip": "pass_rates", "lp_reg": "min_p_proxy"}
    annotated |= {"mix_self": "self_reward", "self_reward_mse": "self_reward", "coupled_entropy": "diversity_coupling"}
    annotated |= {"forward_correction": "noise_rates", "backward_correction": "noise_rates"}
    for field, declared in step_slots().items():
        slot = declared.name
        for name in OPERATORS[slot]:  # other tests register more
            spec = {"name": name, **REQUIRED.get(name, {})}
            try:
                needs = OperatorSpec.model_validate(spec).resolve(slot).config
            except OperatorRefused:
                assert users_of(FILES[slot, name]), name
                continue
            critic = {"critic": "lambda_return"} if "values" in getattr(needs, "reads", ()) and slot != "critic" else {}
            needed = critic | ({"regularizers": []} if (slot, name) == ("reference", "none") else {})
            needed |= {"annotate": [annotated[name]]} if name in annotated else {}
            needed |= {"rollout": "self_play_variants"} if name == "variant_band" else {}
            needed |= {"rollout": {"name": "roles", **REQUIRED["roles"]}} if name == "revision" else {}
            needed |= {"rewards": ["verifier", "overlong"]} if slot == "combine" else {}
            params = RLParams.model_validate({**needed, field: [spec] if declared.many else spec})
            code = fingerprint(components().get("rl"), params, {}, 0, closures=CLOSURES).parts["code"]
            expected = files_of(_of(params)) | reach("components.rl.run")
            assert set(FILES.values()) & code.keys() == set(FILES.values()) & expected, (slot, name)
            checked.append(name)
    assert len(checked) > 60


@pytest.mark.parametrize("component", ["evaluate", "select", "replay"])
def test_of_the_verifiers_those_count_that_rows_name(component: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = components().get(component)

    def code(verifiers: list[str] | None) -> set[str]:
        inputs = {"dataset": ["d"], "datasets": ["d"]}
        return set(fingerprint(made, made.params(), inputs, 0, verifiers=verifiers, closures=CLOSURES).parts["code"])

    of_all = {FILES["verifier", name] for name in OPERATORS["verifier"]}
    for name in OPERATORS["verifier"]:
        assert code([name]) & of_all == files_of({("verifier", name)}) & of_all
    assert code(None) & of_all == of_all  # rows that nobody has read may name any
    before = {name: code([name]) for name in OPERATORS["verifier"]}, code(["no such verifier"])
    registry = operators("verifier")
    monkeypatch.setitem(registry._entries, "another", Entry("tests.support.counting_stage:run", "a test"))
    assert ({name: code([name]) for name in OPERATORS["verifier"]}, code(["no such verifier"])) == before
    assert "tests/support/counting_stage.py" in code(["another"]) & code(None)


@pytest.mark.parametrize(("slot", "name"), [key for key in TARGETS if key[0] in ("source", "demonstrator")])
def test_every_source_and_demonstrator_joins_where_it_is_chosen_and_nowhere_else(
    slot: str, name: str, tmp_path: Path
) -> None:
    rows = tmp_path / ("rows.parquet" if name == "parquet" else "rows.jsonl")
    rows.write_text("{}")
    sums = {"source": {"name": "reasoning_gym", "task": "chain_sum"}}
    given = {
        "hf": {"dataset": "owner/name"},
        "s3": {"path": "s3://bucket/rows.jsonl"},
        "jsonl": {"path": str(rows)},
        "file": {"path": str(rows)},
        "parquet": {"path": str(rows)},
        "preferences": {"path": str(rows)},
        "rules": {"accepts": [{"rules": ["copy"]}]},
        "published": {"set": "gsm8k"},
        "reasoning_gym": {"task": "chain_sum"},
        "guided": sums,
        "suites": {"source": {"name": "programs"}, "faulty": {"name": "programs"}},
        "mask_steps": sums,
        "shuffle_steps": sums,
        "rule": {"rule": "copy"},
        "problem_writing": {**sums, "writer": "sum_variant"},
        "templated": {**sums, "template": "{prompt} now"},
        "unmarked": {"demonstrator": "gold"},
    }
    if (slot, name) == ("source", "choice"):
        given["choice"] = sums
    if (slot, name) == ("source", "concepts"):
        given["concepts"] = {"rules": ["rev", "nxt"]}
    spec = {"name": name, **given.get(name, {})}
    source = spec if slot == "source" else {"name": "artifact"}
    chosen = {("source", source["name"])} | ({(slot, name)} if slot == "demonstrator" else set())
    chosen |= {("source", "reasoning_gym")} if sums.items() <= given.get(name, {}).items() else set()
    chosen |= {("demonstrator", "sum_variant")} if name == "problem_writing" else set()
    if name == "suites":
        chosen |= {("source", "programs"), ("demonstrator", "programs"), ("verifier", "programs")}
    experts = {
        ("source", "guided"): "gold",
        ("source", "mask_steps"): "recorded",
        ("source", "shuffle_steps"): "recorded",
        ("source", "problem_writing"): "recorded",
    }
    experts |= {("demonstrator", name): "gold" for name in ("choice", "confident", "careless", "unmarked", "opened")}
    chosen |= {("demonstrator", experts[slot, name])} if (slot, name) in experts else set()
    chosen |= {("mixture", "declared")}
    chosen |= {("verifier", "exact")} if name in ("hf", "s3", "jsonl", "parquet") else set()
    chosen |= {("verifier", "numeric")} if name == "file" else set()  # all of its no answers are numbers
    share = {"source": source, "demonstrators": [{"demonstrator": spec}] if slot == "demonstrator" else []}
    params = {"kind": "demonstrations", "size": 1, "verifiability": False, "sources": [share]}
    curate = components().get("curate")
    made = fingerprint(
        curate, curate.params.model_validate(params), {}, 0, closures=CLOSURES, objects=lambda uri: "0" * 64
    )
    code = made.parts["code"]
    of_all = set(FILES.values())
    assert of_all & code.keys() == of_all & (files_of(chosen) | reach("components.curate.run"))


def _of(params: RLParams) -> set[tuple[str, str]]:
    chosen = {(slot.name, spec.name) for _, slot, given in params.slots().filled() for spec in given}
    gold = (
        {("demonstrator", "gold")} if chosen & {("guidance", "demonstrations"), ("guidance", "reformulate")} else set()
    )
    gold |= {("demonstrator", "recorded")} if ("rollout", "student_share") in chosen else set()
    gold |= {("verifier", "exact")} if ("rollout", "roles") in chosen else set()
    nesting = {("reward", "mixed"), ("reward", "fade"), ("reward", "mixture_of_judges")}
    inner = {("reward", "overlong")} if chosen & nesting else set()
    inner |= {("verifier", "exact")} if ("reward", "rule_then_judge") in chosen else set()
    return chosen | gold | inner


@pytest.mark.parametrize("name", sorted(COMPONENTS))
def test_a_component_is_code_of_its_own_stages_only(name: str) -> None:
    own = {stage for stage, (made, _, _) in all_stages().items() if made.component.name == name}
    for file in ("run.py", "params.py"):
        assert users_of(f"components/{name}/{file}") == own
    assert own or name in ("adopt", "audit_reward", "select")


def test_nothing_that_only_plans_advises_or_documents_is_code_of_a_stage() -> None:
    code = set().union(*(mark.parts["code"] for mark in marks().values()))
    beside = {f"components/{name}/component.py" for name in COMPONENTS}
    beside |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "components").rglob("*memory_[kn]*.py")}
    beside |= {f"components/modeling/estimates/{name}_memory.py" for name in ("sampling", "supervised")}
    beside |= {"components/rl/memory.py", "components/rl/teacher_memory.py", "components/rl/guidelines.py"}
    beside |= {"components/modeling/supervised/curves.py"}
    assert all((ROOT / file).is_file() for file in beside)
    assert not beside & code
    assert {path.partition("/")[0] for path in code if path.endswith(".py")} == {"components"}
    work = "components/runtime/sandbox/"  # what judges in it is work; the rest of the runtime is a wall
    walls = ("components/contract/", "components/runtime/")
    assert not [path for path in code if path.startswith(walls) and not path.startswith(work)]
    data = {path.partition(" ")[0] for path in code if not path.endswith(".py")}
    assert data == {
        "card.html",
        "document.html",
        "table.html",
    }  # pages of curate and tabulate; no preset, no README: constants count by their values


EDITS = """
import json, sys
from pathlib import Path
from tests.runtime.closure.test_mutations import marks
from tests.runtime.closure import test_mutations
def digests():
    marks.cache_clear()
    test_mutations.CLOSURES = test_mutations.Closures()
    return {name: mark.digest for name, mark in marks().items()}
found = [digests()]
for edits in json.loads(sys.argv[1]):
    texts = {path: Path(path).read_text() for path, *_ in edits}
    for path, before, after in edits:
        text = Path(path).read_text()
        assert before in text, (path, before)
        Path(path).write_text(text.replace(before, after) if before else text + after)
    found.append(digests())
    for path, text in texts.items():
        Path(path).write_text(text)
print(json.dumps(found))
"""
CODE = "\nEDITED = True\n"
USED = [
    "components/tasks/verifiers/exact.py",
    "components/tasks/demonstrators/gold.py",
    "components/rl/operators/advantages/group_mean.py",
    "components/rl/curricula/first_rates.py",
    "components/tasks/item.py",
    "components/evaluate/run.py",
    "components/rl/params.py",
    "components/rl/__init__.py",
]
UNUSED = [
    ("components/rl/component.py", "", CODE),
    ("components/rl/guidelines.py", "", CODE),
    ("components/rl/memory.py", "", CODE),
    ("components/modeling/estimates/memory_needs.py", "", CODE),
    ("components/curate/component.py", "Rows of the dataset", "Number of rows"),
    ("components/rl/README.md", "", "more"),
    ("components/rl/step/loop.py", "", "# a comment"),
    ("components/tasks/verifiers/exact.py", "from __future__", "# a comment\nfrom __future__"),
    ("components/rl/params.py", "Rounds of rollout and update;", "Rounds;"),
    ("pipelines/plan/history.py", "", CODE),
    ("tests/runtime/job/test_launch.py", "", CODE),
]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree elsewhere: its fingerprints are those of this one."""
    folder = tmp_path_factory.mktemp("copied")
    for name in ("components", "pipelines", "tests", "infra"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "airflow*", "images"))
    return folder


def edited(folder: Path, *steps: list[tuple[str, str, str]]) -> list[dict[str, str]]:
    """Return the digests of all stages of all recipes in a copy: before, and with the edits of each step."""
    given = [[(str(folder / path), *rest) for path, *rest in edits] for edits in steps]
    command = [sys.executable, "-c", EDITS, json.dumps(given)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_edits_of_a_copy_of_the_tree_change_what_was_said(copied: Path) -> None:
    before, unused, *after = edited(copied, UNUSED, *([(path, "", CODE)] for path in USED))
    assert before == {name: mark.digest for name, mark in marks().items()}
    assert unused == before
    changed = [{name for name in before if digests[name] != before[name]} for digests in after]
    assert changed == [users_of(file) for file in USED]
    assert all(changed) and len(set(map(len, changed))) > 4


def test_of_a_preset_the_constants_count_and_the_words_do_not(copied: Path) -> None:
    methods = copied / "components/rl/methods"
    for name, old, new in (("dapo", "summary: ", "summary: Reworded. "), ("grpo", "ddof: 1}", "ddof: 0}")):
        text = (methods / f"{name}.yaml").read_text()
        assert old in text
        (methods / f"{name}.yaml").write_text(text.replace(old, new))
    (now,) = edited(copied)
    changed = {name for name, mark in marks().items() if now[name] != mark.digest}
    method = {name: getattr(stage.config, "method", "") for name, (stage, _, _) in all_stages().items()}
    assert changed and {method[name] for name in changed} == {"grpo"}

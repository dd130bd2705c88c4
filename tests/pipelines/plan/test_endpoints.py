"""Endpoints in recipes: what may be named where, what counts, and that keys are nowhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from components.contract.endpoints import Endpoint
from components.contract.errors import InputError
from components.runtime.store import open_store
from pipelines.engines.kubeflow.compiler.bundle import Bundle
from pipelines.engines.kubeflow.compiler.settings import Settings, refuse
from pipelines.engines.local.containers import Containers
from pipelines.engines.shared.pod import PodSettings, pod_template, refusals
from pipelines.plan.forecast import forecast
from pipelines.plan.memory import memory_fits
from pipelines.plan.plan import Plan, build_plan
from pipelines.recipe.endpoints import load_endpoints
from pipelines.recipe.pools import load_pools
from pipelines.recipe.recipe import load_recipe

KEY = "sk-planted-secret-value"
POOLS = """
cpu: {cpus: 1, memory_gib: 4}
endpoints:
  big:
    base_url: https://models.example/v1/
    model: big-1
    api: completions
    key_env: BIG_KEY
  talker: {base_url: http://127.0.0.1:1/v1, model: talker-1}
"""
RECIPE = """
name: ask
stages:
  rl:
    uses: rl
    in: {model: /models/start, dataset: /data/rows.jsonl%s}
    with: {steps: 2, method: grpo%s}
"""
REWARD = ", rewards: [verifier, likelihood_under]"


@pytest.fixture
def pools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "pools.yaml"
    path.write_text(POOLS)
    monkeypatch.setenv("POSTTRAIN_POOLS", str(path))
    monkeypatch.setenv("BIG_KEY", KEY)
    return path


def planned(folder: Path, inputs: str, params: str = REWARD) -> Plan:
    path = folder / "ask.yaml"
    path.write_text(RECIPE % (inputs, params))
    return build_plan(load_recipe(str(path)), str(folder / "store"), "run-1")


@pytest.mark.parametrize(
    ("inputs", "params", "line"),
    [
        (", scorers: endpoint:bigg", REWARD, r"unknown endpoint 'bigg'; did you mean 'big'\? \(known: big, talker\)"),
        (
            ", scorers: [endpoint:talker]",
            REWARD,
            r"input 'scorers' of stage 'rl' needs an endpoint with 'api: compl.*'api",
        ),
        (
            ", reference: endpoint:big",
            "",
            r"needs a model's weights, and 'endpoint:big' is a server \(ports of 'rl' that",
        ),
        (", scorers: endpoint:big", "", r"input 'scorers' of stage 'rl' is read by nothing"),
        (", judges: endpoint:big", REWARD, r"input 'judges' of stage 'rl' is read by nothing"),
        ("", REWARD, r"reward operator 'likelihood_under' asks the input 'scorers', which is not connected"),
        ("", ", guidance: teachers", r"guidance operator 'teachers' asks the input 'teachers', which is not connected"),
        (", scorers: 'endpoint:No Good'", REWARD, r"expected endpoint:<name>"),
        (", scorer: endpoint:big", REWARD, r"unknown input of 'rl': 'scorer'; did you mean 'scorers'"),
    ],
)
def test_what_is_wrong_is_said_at_its_line(pools: Path, tmp_path: Path, inputs: str, params: str, line: str) -> None:
    with pytest.raises(InputError, match=r"ask.yaml:\d+.*" + line) as error:
        planned(tmp_path, inputs, params)
    assert len(str(error.value).splitlines()) == (2 if "judges" in inputs else 1)


def test_a_deterministic_stage_asks_no_server(pools: Path, tmp_path: Path) -> None:
    """Nobody can repeat its answers."""
    path = tmp_path / "ask.yaml"
    text = RECIPE % (", scorers: endpoint:big", REWARD) + "    backend: {deterministic: true}\n"
    path.write_text(text)
    with pytest.raises(InputError, match=r"ask.yaml:6:\d+: .*'endpoint:big', whose answers nobody can repeat, and the"):
        load_recipe(str(path))
    path.write_text(text.replace("true", "false"))
    assert load_recipe(str(path)).stages[0].backend is not None


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (f"{{base_url: https://a/v1, model: b, key_env: {KEY}}}", r"key_env: expected the name of an environment var"),
        (f"{{base_url: 'https://me:{KEY}@a/v1', model: b}}", "an address holds no user, password"),
        ("{base_url: 'ftp://a', model: b}", "expected an address such as https://host/v1"),
        ("{base_url: https://a/v1, model: b, generation: {seed: 1}}", "seed is set by the stage that asks"),
        ("{base_url: https://a/v1, model: b, retires: 3}", "retires"),
        ("{base_url: https://a/v1}", "model"),
    ],
)
def test_a_wrong_entry_is_said_at_its_line_without_its_key(pools: Path, entry: str, line: str) -> None:
    pools.write_text(POOLS + f"  wrong: {entry}\n")
    with pytest.raises(InputError, match=rf"pools.yaml:\d+.*{line}") as error:
        load_endpoints()
    assert KEY not in str(error.value) and list(load_pools()) == ["cpu"]


def test_a_file_of_pools_without_endpoints_is_as_before(pools: Path) -> None:
    pools.write_text("cpu: {cpus: 1, memory_gib: 4}\n")
    assert load_endpoints() == {} and list(load_pools()) == ["cpu"]


def test_the_job_holds_what_it_needs_and_no_key(pools: Path, tmp_path: Path) -> None:
    plan = planned(tmp_path, ", scorers: [endpoint:big]")
    (job,) = plan.jobs
    assert list(job.endpoints) == ["big"] and job.key_variables == ["BIG_KEY"]
    assert type(job).model_validate_json(job.model_dump_json()) == job
    assert KEY not in job.model_dump_json()
    assert "endpoints" not in planned(tmp_path, "", "").jobs[0].model_dump()


def test_address_key_and_limits_change_no_fingerprint_and_model_and_settings_do(pools: Path, tmp_path: Path) -> None:
    """The digest of what stands for an endpoint is its part of the fingerprint."""
    (tmp_path / "start").mkdir()
    (tmp_path / "rows.jsonl").write_text("")
    marks = {}
    changes = {
        "same": ("", ""),
        "address": ("https://models.example/v1/", "http://elsewhere:8000/v1"),
        "key": ("BIG_KEY", "OTHER_KEY"),
        "limits": ("api: completions", "api: completions\n    concurrency: 3\n    retries: 1"),
        "model": ("big-1", "big-2"),
        "settings": ("api: completions", "api: completions\n    generation: {top_p: 0.5}"),
    }
    store = open_store(str(tmp_path / "store"))
    for name, (old, new) in changes.items():
        pools.write_text(POOLS.replace(old, new) if old else POOLS)
        plan = planned(tmp_path, ", scorers: endpoint:big")
        text = json.loads(plan.jobs[0].model_dump_json())
        text["inputs"] |= {
            "model": [{"uri": str(tmp_path / "start")}],
            "dataset": [{"uri": str(tmp_path / "rows.jsonl")}],
        }
        job = type(plan.jobs[0]).model_validate(text)
        (found,) = forecast(Plan(plan.recipe, "run-1", str(tmp_path / "store"), (job,)), store)
        assert found.fingerprint is not None
        marks[name] = found.fingerprint
    assert {name for name, mark in marks.items() if mark != marks["same"]} == {"model", "settings"}


def test_kubeflow_carries_the_endpoint_and_wants_its_key_from_a_secret(pools: Path, tmp_path: Path) -> None:
    recipe = planned(tmp_path, ", scorers: [endpoint:big]").recipe
    text = Bundle.of(recipe).dump()
    assert KEY not in text
    target = tmp_path / "unpacked"
    target.mkdir()
    bundle = Bundle.parse(text)
    (target / bundle.file).write_text(bundle.files[bundle.file])
    (target / "pools.json").write_text(json.dumps(bundle.pools))
    pools.write_text("cpu: {cpus: 1, memory_gib: 4}\n")  # as in a pod, whose image has other pools
    assert bundle.load(target).endpoints == recipe.endpoints
    with pytest.raises(
        InputError, match=r"endpoint 'big' needs BIG_KEY, which no Secret gives: list it in POSTTRAIN_K"
    ):
        refuse(recipe, Settings.read({}))
    with pytest.raises(InputError) as rest:
        refuse(recipe, Settings.read({"POSTTRAIN_KUBEFLOW_SECRETS": "models:BIG_KEY"}))
    assert "BIG_KEY" not in str(rest.value)


def test_pods_take_the_key_from_their_secrets_alone(pools: Path, tmp_path: Path) -> None:
    plan = planned(tmp_path, ", scorers: [endpoint:big]")
    (job,), pool = plan.jobs, plan.recipe.pools["cpu"]
    named = PodSettings.read({"POSTTRAIN_POD_SECRETS": "models"})
    assert any(re.search("BIG_KEY.*POSTTRAIN_POD_SECRETS", line) for line in refusals(job, pool, PodSettings.read({})))
    assert not any("BIG_KEY" in line for line in refusals(job, pool, named))
    manifest = json.dumps(pod_template(job, pool, named))
    assert '{"secretRef": {"name": "models"}}' in manifest and KEY not in manifest


def test_a_container_gets_the_key_by_name_and_a_network_only_for_endpoints(pools: Path, tmp_path: Path) -> None:
    containers = Containers("docker", {"cpu": "image", "gpu": "image"})
    asking = containers.command(planned(tmp_path, ", scorers: [endpoint:big]").jobs[0], "name", {})
    quiet = containers.command(planned(tmp_path, "", "").jobs[0], "name", {})
    assert "BIG_KEY" in asking and "BIG_KEY" not in quiet
    assert "none" not in asking and "none" in quiet
    assert not [part for part in (*asking, *quiet) if KEY in part]


def test_an_address_holds_no_password() -> None:
    with pytest.raises(ValueError, match="the key comes from 'key_env'"):
        Endpoint.model_validate({"base_url": "https://me:secret@host/v1", "model": "m"})


def test_models_in_process_count_in_the_plan_s_memory_and_endpoints_do_not(pools: Path, tmp_path: Path) -> None:
    for name, width in (("start", 64), ("large", 1024)):
        make_config(tmp_path / name, width)
    path, needs = tmp_path / "ask.yaml", {}
    for scorers in ("[endpoint:big]", f"[{tmp_path}/start]", f"[{tmp_path}/large, endpoint:big]"):
        text = RECIPE % (f", scorers: {scorers}", REWARD)
        path.write_text(text.replace("/models/start", f"{tmp_path}/start"))
        (fit,) = memory_fits(load_recipe(str(path)))["rl"]
        needs[scorers] = fit.estimate.parts(fit.where)
    endpoint, small, large = needs.values()
    assert "weights of a scorer" not in endpoint
    assert large["weights of a scorer"] > 100 * small["weights of a scorer"] > 0
    assert small["weights"] == large["weights"] == endpoint["weights"], "the stage's own model is the first input"


def make_config(folder: Path, width: int) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "vocab_size": 100,
        "max_position_embeddings": 256,
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))

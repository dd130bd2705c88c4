"""The Deployment that delivers lineage: what it runs, and that it needs no more than terraform lets it do."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest
import yaml

from components.contract.errors import StoreUnavailable
from components.runtime.lineage.delivery import watch
from components.runtime.lineage.delivery.deliver import delivery_state
from components.runtime.store import open_store
from tests.runtime.lineage.conftest import client_of, tell, uri_of
from tests.support.s3_rights import account_rights
from tests.support.s3_server import local_s3, make_bucket, s3_environment

MANIFEST = Path(__file__).parents[3] / "infra" / "kubernetes" / "base" / "lineage.yaml"


def test_it_delivers_a_run_with_the_rights_of_its_account(
    tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, alive = f"lineage-{uuid.uuid4().hex[:8]}", tmp_path / "alive"
    with local_s3() as free, local_s3(rights=account_rights()["lineage"]) as narrow:  # they share what they hold
        make_bucket(free, bucket)
        for name, value in s3_environment(free, tmp_path / "cache").items():
            monkeypatch.setenv(name, value)
        tell(open_store(f"s3://{bucket}/store"), "quick-1", rows=4)
        monkeypatch.setenv("AWS_ENDPOINT_URL", narrow)
        store = open_store(f"s3://{bucket}/store")
        watch.Watcher(store, uri_of(database), alive).look()
        state = delivery_state(store, "quick-1", uri_of(database))
        assert (state.pending, state.refused, state.problem) == (0, {}, None)
        assert alive.exists()
        assert client_of(database).get_experiment_by_name("quick") is not None
        with pytest.raises(StoreUnavailable):
            store.put("ledger/quick-1/state.json", {"n": 1}, overwrite=True)


def test_the_manifest_runs_it_and_its_probe_looks_where_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (container,) = yaml.safe_load(MANIFEST.read_text())["spec"]["template"]["spec"]["containers"]
    python, option, module, *arguments = container["command"]
    assert (python, option, module) == ("python", "-m", watch.__name__)
    monkeypatch.setattr("sys.argv", [module, *arguments])
    monkeypatch.delenv("POSTTRAIN_STORE", raising=False)
    assert watch.main() == 2  # the arguments are understood; the ConfigMap names the store
    assert "name a store: --store or POSTTRAIN_STORE" in capsys.readouterr().err
    *_, code = container["livenessProbe"]["exec"]["command"]
    assert arguments == ["--alive", "/tmp/alive"] and "'/tmp/alive'" in code
    alive = tmp_path / "alive"
    watch.Watcher(open_store(str(tmp_path / "store")), "", alive).touch()
    for age, exit_code in ((0, False), (3600, True)):
        touched = alive.stat().st_mtime - age
        os.utime(alive, (touched, touched))
        with pytest.raises(SystemExit) as ended:
            exec(code.replace("/tmp/alive", str(alive)), {})
        assert ended.value.code is exit_code

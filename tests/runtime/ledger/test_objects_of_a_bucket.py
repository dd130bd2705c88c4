"""Sources that read a bucket: new objects are another fingerprint, and what cannot be listed is no reason to stop."""

from __future__ import annotations

import uuid

import pytest

from components.contract.registry import components
from components.runtime.ledger.fingerprint import fingerprint, reads_objects
from tests.support.s3_server import in_memory_writer


def curate(path: str) -> tuple:
    component = components().get("curate")
    source = {"domain": "sums", "source": {"name": "jsonl", "path": path}}
    return component, component.params.model_validate({"kind": "prompts", "sources": [source]})


@pytest.fixture
def folder(s3_uri: str) -> str:
    return f"{s3_uri}/{uuid.uuid4().hex}/"


def mark_of(path: str) -> str:
    return fingerprint(*curate(path), {}, 0).digest


def test_new_and_replaced_objects_are_another_fingerprint_and_the_same_ones_are_not(folder: str) -> None:
    bucket, _, prefix = folder.removeprefix("s3://").partition("/")
    put = in_memory_writer(bucket, prefix.rstrip("/"))
    put("a.jsonl", b"{}")
    first, single = mark_of(folder), mark_of(f"{folder}a.jsonl")
    assert mark_of(folder) == first
    put("b.jsonl", b"{}")
    second = mark_of(folder)
    assert second != first and mark_of(f"{folder}a.jsonl") == single
    put("a.jsonl", b"[]")
    assert mark_of(folder) not in (first, second) and mark_of(f"{folder}a.jsonl") != single
    named = [name for name in fingerprint(*curate(folder), {}, 0).parts["code"] if name.startswith("s3://")]
    assert len(named) == 1 and named[0].startswith(f"{folder} (")


def test_only_sources_of_a_bucket_are_listed(s3_uri: str, tmp_path) -> None:
    (tmp_path / "rows.jsonl").write_text("{}")
    assert reads_objects(*curate(f"{s3_uri}/x/")) and not reads_objects(*curate(str(tmp_path / "rows.jsonl")))


def test_whoever_only_forecasts_may_give_the_digest(s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    parts = fingerprint(*curate("s3://bucket/rows/"), {}, 0, objects=lambda uri: uri.upper()).parts
    assert "S3://BUCKET/ROWS/" in parts["code"].values()

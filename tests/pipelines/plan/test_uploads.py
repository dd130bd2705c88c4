"""Local data on its way into the store: the digests that it has here, sent once, asked for, and never a secret."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from components.contract import uploaded
from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError
from components.contract.uploaded import Upload
from components.runtime.inputs import uploads as sending
from components.runtime.inputs.inputs import import_uri
from components.runtime.inputs.uploads import local_files, local_input, send
from components.runtime.store import Store, open_store
from components.tasks.table_files import JSONL_SUFFIXES, find_files
from pipelines.engines.shared.request import DATA, data_conf, requested_recipe
from pipelines.language.problems import RecipeErrors
from pipelines.plan.plan import build_plan
from pipelines.plan.uploads import local_data
from pipelines.recipe.recipe import load_recipe
from pipelines.runs.uploading import LIMIT, upload

ROW = '{"prompt": "say ab", "answer": "ab"}\n'
RECIPE = """\
name: local
stages:
  rows:
    uses: curate
    in: {against: [./heldout.jsonl]}
    with: {sources: [{domain: x, source: {name: jsonl, path: rows}}]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A recipe that names a file of rows as an input, and a folder of two as a source."""
    (tmp_path / "rows" / "more").mkdir(parents=True)
    (tmp_path / "rows" / "b.jsonl").write_text(ROW)
    (tmp_path / "rows" / "more" / "a.jsonl").write_text(ROW * 2)
    (tmp_path / "rows" / "notes.txt").write_text("not data")
    (tmp_path / "heldout.jsonl").write_text(ROW)
    (tmp_path / "local.yaml").write_text(RECIPE)
    return tmp_path


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return open_store(str(tmp_path / "store"))


def test_an_upload_has_the_digest_of_an_import(folder: Path, store: Store) -> None:
    path = str(folder / "heldout.jsonl")
    data = local_input(path, ArtifactType.DATASET)
    assert data.manifest.digest == import_uri(store, path, ArtifactType.DATASET)
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (folder / "blob").write_bytes(b"weights")
    (model / "model.safetensors").symlink_to(folder / "blob")  # as in the hub's cache
    sent = local_input(str(model), ArtifactType.MODEL)
    send(store, sent, lambda text: None)
    assert (store.fetch(sent.manifest.digest) / "model.safetensors").read_bytes() == b"weights"
    assert os.access(folder / "blob", os.W_OK) and (model / "model.safetensors").is_symlink()
    (model / "model.safetensors").unlink()
    (model / "model.safetensors").write_bytes(b"weights")
    assert sent.manifest.digest == import_uri(store, str(model), ArtifactType.MODEL)


def test_the_files_of_a_path_come_back_in_their_order(folder: Path, store: Store) -> None:
    found = find_files(str(folder / "rows"), JSONL_SUFFIXES)
    data = local_files(str(folder / "rows"), found)
    send(store, data, lambda text: None)
    uploaded.use({data.path: data.manifest.digest}, store.fetch)
    try:
        there = find_files(str(folder / "rows"), JSONL_SUFFIXES)
        assert [file.read_text() for file in there] == [file.read_text() for file in found]
        assert [file.name for file in there] == [file.name for file in found] == ["b.jsonl", "a.jsonl"]
    finally:
        uploaded.use({}, store.fetch)


def test_jobs_name_digests_and_another_machine_plans_the_same_ones(
    folder: Path, store: Store, tmp_path_factory: pytest.TempPathFactory
) -> None:
    own = load_recipe(str(folder / "local.yaml"))
    data = local_data(own)
    sent = replace(own, uploads=tuple(one.upload for one in data))
    plan = build_plan(sent, store.uri, "r")
    (job,) = plan.jobs
    kinds = {one.kind: one for one in sent.uploads}
    assert [ref.uri for ref in job.inputs["against"]] == [f"artifact:{kinds[ArtifactType.DATASET].digest}"]
    assert job.uploaded == {str(folder / "rows"): kinds[ArtifactType.FILES].digest}
    assert job.params == build_plan(own, store.uri, "r").jobs[0].params

    there = tmp_path_factory.mktemp("worker")
    (there / "local.yaml").write_text(RECIPE)  # as git has it: without the data
    with pytest.raises(RecipeErrors, match=r"heldout.jsonl.*no such file"):
        requested_recipe(str(there / "local.yaml"), {})
    asked = requested_recipe(str(there / "local.yaml"), data_conf(sent))
    assert build_plan(asked, store.uri, "r").digest == plan.digest
    for wrong in ({}, [], {"uploads": [{}], "folders": ["/x", "/"]}, {"uploads": [], "folders": []}, "x"):
        with pytest.raises(InputError, match="not what posttrain run writes"):
            requested_recipe(str(there / "local.yaml"), {DATA: wrong})


def test_what_is_missing_or_secret_is_told_with_its_line(folder: Path) -> None:
    (folder / "rows" / ".env.jsonl").write_text(ROW)
    recipe = load_recipe(str(folder / "local.yaml"))
    (folder / "heldout.jsonl").unlink()
    with pytest.raises(RecipeErrors) as caught:
        local_data(recipe)
    text = str(caught.value)
    assert "local.yaml:5:" in text and "no such file or folder" in text
    assert "local.yaml:6:" in text and ".env.jsonl is never uploaded" in text
    (folder / "m").mkdir()
    (folder / "m" / ".git").mkdir()
    (folder / "m" / ".git" / "config").write_text("token")
    with pytest.raises(InputError, match=r"\.git/config is never uploaded"):
        local_input(str(folder / "m"), ArtifactType.MODEL)


def test_a_file_that_changes_between_plan_and_submit_is_noticed(folder: Path, store: Store) -> None:
    data = local_input(str(folder / "heldout.jsonl"), ArtifactType.DATASET)
    (folder / "heldout.jsonl").write_text(ROW * 3)
    with pytest.raises(InputError, match="changed while it was uploaded"):
        send(store, data, lambda text: None)
    assert not store.has(data.manifest.digest)


def test_nothing_is_sent_twice_and_an_interrupted_upload_goes_on(folder: Path, store: Store) -> None:
    found = find_files(str(folder / "rows"), JSONL_SUFFIXES)
    data = local_files(str(folder / "rows"), found)
    sent: list[list[str]] = []
    original = store.blobs.upload

    def watched(prefix, place, entries):
        sent.append([entry.path for entry in entries])
        original(prefix, place, entries[:1] if len(sent) == 1 else entries)
        if len(sent) == 1:
            raise KeyboardInterrupt

    store.blobs.upload = watched  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        send(store, data, lambda text: None)
    assert not store.has(data.manifest.digest)
    send(store, data, lambda text: None)
    assert sent == [["b.jsonl", "more/a.jsonl"], ["more/a.jsonl"]]
    send(store, data, lambda text: None)
    assert len(sent) == 2 and store.has(data.manifest.digest)


def test_more_than_the_limit_is_asked_for(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = [local_input(str(folder / "heldout.jsonl"), ArtifactType.DATASET)]
    monkeypatch.setenv(LIMIT, "0.01KiB")
    with pytest.raises(InputError, match=r"heldout.jsonl: .* GiB would be uploaded to .*, more than POSTTRAIN_UPLOAD"):
        upload(data, store)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    with pytest.raises(InputError, match="not agreed to"):
        upload(data, store)
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    upload(data, store)
    assert "Continue? [y/N]" in capsys.readouterr().err and store.has(data[0].manifest.digest)
    upload(data, store)  # what is there is not asked for again
    monkeypatch.setenv(LIMIT, "a lot")
    with pytest.raises(InputError, match="expected a size"):
        upload(data, store)


def test_a_name_with_escapes_is_shown_as_text(folder: Path, store: Store) -> None:
    evil = folder / "\x1b[31mrows"
    evil.mkdir()
    (evil / "x.jsonl").write_text(ROW)
    said: list[str] = []
    send(store, sending.local_files(str(evil), [evil / "x.jsonl"]), said.append)
    assert said and "\x1b" not in said[0] and "\\x1b[31mrows" in said[0]
    assert Upload(path="/x", kind=ArtifactType.FILES, digest="0" * 64, size=0).size == 0


def test_a_bucket_gets_the_files_from_where_they_lie(folder: Path, s3_uri: str, tmp_path: Path) -> None:
    store = open_store(s3_uri)
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(os.urandom(9 << 20))  # more than one part
    data = local_input(str(model), ArtifactType.MODEL)
    said: list[str] = []
    send(store, data, said.append)
    send(store, data, said.append)
    assert said == [f"uploading {model} to {s3_uri}: 9.0 MiB in 2 files"]
    there = store.fetch(data.manifest.digest)
    assert (there / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    assert not (there / "model.safetensors").is_symlink()


@pytest.mark.parametrize("name", ["two\nlines.jsonl", "a\\b.jsonl", "bad\udcff.jsonl", "\u202ename.jsonl"])
def test_a_name_that_no_store_takes_is_refused_in_a_line(folder: Path, name: str) -> None:
    (folder / "model").mkdir()
    (folder / "model" / name).write_text(ROW)
    with pytest.raises(InputError, match="cannot be a file's name in a store") as caught:
        local_input(str(folder / "model"), ArtifactType.MODEL)
    assert "\n" not in str(caught.value) and str(caught.value).isprintable()


def test_a_link_to_a_secret_and_a_secret_named_by_itself_stay_here(folder: Path) -> None:
    (folder / ".aws").mkdir()
    (folder / ".aws" / "config").write_text("key")
    (folder / "id_rsa").write_text("key")
    for target in (folder / ".aws" / "config", folder / "id_rsa"):
        (folder / "model" / "sub").mkdir(parents=True, exist_ok=True)
        link = folder / "model" / "sub" / "notes.txt"
        link.symlink_to(target)
        with pytest.raises(InputError, match=r"sub/notes.txt is never uploaded"):
            local_input(str(folder / "model"), ArtifactType.MODEL)
        link.unlink()
    (folder / ".env.jsonl").write_text(ROW)
    with pytest.raises(InputError, match="is never uploaded"):
        local_input(str(folder / ".env.jsonl"), ArtifactType.DATASET)
    (folder / ".ssh").mkdir()
    (folder / ".ssh" / "rows.jsonl").write_text(ROW)
    with pytest.raises(InputError, match="is never uploaded"):
        local_files(str(folder / ".ssh"), [folder / ".ssh" / "rows.jsonl"])


def test_links_to_folders_pipes_and_devices_are_refused(folder: Path) -> None:
    model = folder / "model"
    model.mkdir()
    for make in (lambda at: at.symlink_to(folder / "rows"), os.mkfifo, lambda at: at.symlink_to("/dev/zero")):
        make(model / "x")
        with pytest.raises(InputError, match=r"model/x is (a link to no file|a device or a pipe)"):
            local_input(str(model), ArtifactType.MODEL)
        (model / "x").unlink()


def test_a_change_that_keeps_time_and_size_never_becomes_the_artifact(folder: Path, store: Store) -> None:
    path = folder / "heldout.jsonl"
    data = local_input(str(path), ArtifactType.DATASET)
    before = path.stat()
    path.write_text(ROW.replace("ab", "cd"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InputError, match="changed while it was uploaded"):
        send(store, data, lambda text: None)
    assert not store.has(data.manifest.digest)


@pytest.mark.parametrize("size", [100, (64 << 20) + 1])
def test_a_change_during_an_upload_to_a_bucket_leaves_nothing_behind(folder: Path, s3_uri: str, size: int) -> None:
    """A large object is noted with the digest that it was to have: it must not pass for the file that was hashed."""
    store, model = open_store(s3_uri), folder / "model"
    model.mkdir()
    weights = model / "model.safetensors"
    weights.write_bytes(bytes(size))
    data = local_input(str(model), ArtifactType.MODEL)
    weights.write_bytes(b"\1" * size)
    with pytest.raises(InputError, match="changed while it was uploaded"):
        send(store, data, lambda text: None)
    assert list(store.blobs.keys(f"objects/{data.manifest.digest}/")) == []
    weights.unlink()
    with pytest.raises(InputError, match="changed while it was uploaded"):
        send(store, data, lambda text: None)


def test_a_folder_of_no_such_user_is_told(folder: Path) -> None:
    with pytest.raises(InputError, match="no such user"):
        find_files("~no-such-user/rows", JSONL_SUFFIXES)

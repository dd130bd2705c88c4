"""Inputs on S3: which objects a URI means, and keys whose names are meant to do harm."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError, StoreUnavailable
from components.runtime.inputs.inputs import import_uri
from components.runtime.inputs.s3_input import download_input, split_keys
from components.runtime.store import open_store
from components.runtime.store.s3_calls import TRIES_OF_A_DAMAGED_BODY, DamagedBody, S3Calls
from components.runtime.store.s3_objects import download


@pytest.fixture
def put(s3_uri: str) -> Any:
    """Store objects below the test's own prefix and return that prefix's URI."""
    bucket, _, prefix = s3_uri.removeprefix("s3://").partition("/")
    client = boto3.client("s3")

    def write(*keys: str) -> str:
        for key in keys:
            client.put_object(Bucket=bucket, Key=f"{prefix}/{key}", Body=key.encode())
        return s3_uri

    return write


def brought(uri: str, folder: Path) -> dict[str, str]:
    folder.mkdir()
    download_input(uri, folder)
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_is_not_its_neighbours(put: Any, tmp_path: Path) -> None:
    uri = put("m/config.json", "m/deep/weights", "m/", "m/empty/", "m2/config.json", "m.json", "m-old/x")
    expected = {"config.json": "m/config.json", "deep/weights": "m/deep/weights"}
    assert brought(f"{uri}/m", tmp_path / "a") == expected
    assert brought(f"{uri}/m/", tmp_path / "b") == expected


def test_one_object_becomes_the_rows(put: Any, tmp_path: Path) -> None:
    uri = put("rows.jsonl", "rows.jsonl.bak", "what?is#this.jsonl")
    assert brought(f"{uri}/rows.jsonl", tmp_path / "a") == {"rows.jsonl": "rows.jsonl"}
    assert brought(f"{uri}/what?is#this.jsonl", tmp_path / "b") == {"rows.jsonl": "what?is#this.jsonl"}


def test_an_import_holds_what_the_uri_means_and_nothing_else(put: Any, tmp_path: Path) -> None:
    uri = put("m/config.json", "m2/config.json")
    store = open_store(str(tmp_path / "store"))
    manifest = store.manifest(import_uri(store, f"{uri}/m", ArtifactType.MODEL))
    assert [entry.path for entry in manifest.files] == ["config.json"]


def test_an_object_and_a_folder_of_one_name_are_told_apart(put: Any, tmp_path: Path) -> None:
    uri = put("m", "m/config.json")
    with pytest.raises(InputError, match=r"an object .* and a folder of that name; end the URI with /"):
        brought(f"{uri}/m", tmp_path / "a")
    assert brought(f"{uri}/m/", tmp_path / "b") == {"config.json": "m/config.json"}


@pytest.mark.parametrize(
    "key",
    [
        "m/../escaped", "m/..", "m/a/../../escaped", "m/./a", "m//etc/passwd", "m/a//b", "m/a\\b", "m/..\\escaped",
        "m/tab\there", "m/line\nbreak", "m/\x7f", "m/\x85", "m/" + "x" * 256, "m/" + "\u00e9" * 128, "m/a/b/file/below",
    ],
)  # fmt: skip
def test_hostile_keys_are_refused_with_their_name(key: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be a file's name|is an object and"):
        split_keys([key, "m/a/b/file"], "m")


@pytest.mark.parametrize("key", ["m/../escaped", "m//etc/passwd", "m/" + "x" * 300, "m/a/b"])
def test_nothing_is_written_for_hostile_keys_of_a_bucket(put: Any, tmp_path: Path, key: str) -> None:
    uri = put("m/a", key)
    with pytest.raises(InputError, match="input s3://"):
        brought(f"{uri}/m", tmp_path / "inside")
    assert [path for path in tmp_path.rglob("*") if path.is_file() and "cache" not in path.parts] == []


def test_nothing_there_names_a_neighbour_and_no_bucket_says_so(put: Any, tmp_path: Path) -> None:
    uri = put("m2/config.json")
    with pytest.raises(InputError, match=r"nothing is stored there \(there is '.*m2/config.json'\)"):
        download_input(f"{uri}/m", tmp_path)
    with pytest.raises(StoreUnavailable, match=r"input s3://nowhere/m: bucket 'nowhere'.*NoSuchBucket.*Check the buck"):
        download_input("s3://nowhere/m", tmp_path)


class _Elsewhere(BaseHTTPRequestHandler):
    """Answers as S3 does for a bucket of another region."""

    def do_GET(self) -> None:
        body = b"<?xml version='1.0'?><Error><Code>PermanentRedirect</Code><Message>elsewhere</Message></Error>"
        self.send_response(301)
        self.send_header("x-amz-bucket-region", "eu-north-1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def elsewhere(s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An endpoint whose buckets all lie in eu-north-1."""
    server = HTTPServer(("127.0.0.1", 0), _Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    yield
    server.shutdown()
    server.server_close()


@pytest.mark.usefixtures("elsewhere")
def test_a_wrong_region_says_which_one_is_right(tmp_path: Path) -> None:
    advice = r"The bucket lies in another region: set AWS_DEFAULT_REGION=eu-north-1\.$"
    with pytest.raises(StoreUnavailable, match=advice):
        open_store("s3://there/x").get("a.json")
    with pytest.raises(StoreUnavailable, match=advice):
        download_input("s3://there/m", tmp_path)


class _Answers:
    """A client whose one object is answered with a header of one's choice."""

    meta = None

    def __init__(self, **headers: str) -> None:
        self.headers, self.asked = headers, 0

    def get_object(self, **request: str) -> dict[str, Any]:
        self.asked += 1
        return {"Body": io.BytesIO(b"rows"), "ContentLength": 4, **self.headers}


class _Calls(S3Calls):
    def __init__(self, client: _Answers) -> None:
        super().__init__("bucket", "s3://bucket/rows")
        self._only = client

    def _client_with(self, attempts: int) -> Any:
        return self._only


OTHER_MD5 = '"0123456789abcdef0123456789abcdef"'


def test_bytes_of_another_md5_are_asked_for_again_and_then_refused(tmp_path: Path) -> None:
    client = _Answers(ETag=OTHER_MD5)
    with pytest.raises(DamagedBody, match=r"'rows' has MD5 .* instead of 0123456789ab"):
        download(_Calls(client), "rows", tmp_path / "rows")
    assert client.asked == TRIES_OF_A_DAMAGED_BODY


@pytest.mark.parametrize("headers", [{"ServerSideEncryption": "aws:kms"}, {"SSECustomerAlgorithm": "AES256"}])
def test_an_etag_under_encryption_is_no_md5(tmp_path: Path, headers: dict[str, str]) -> None:
    download(_Calls(_Answers(ETag=OTHER_MD5, **headers)), "rows", tmp_path / "rows")
    assert (tmp_path / "rows").read_bytes() == b"rows"

"""Every image of others is named by the digest that pins.lock says, and a registry is asked right for a new one."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from pipelines.recipe.pods.values import pinned_image
from tests.infra.conftest import INFRA

OURS = ("posttrain-", "localhost/posttrain-")
INDEX = json.dumps({"schemaVersion": 2, "manifests": [{"digest": "sha256:" + "1" * 64}]}).encode()


@pytest.fixture(scope="module")
def pins() -> ModuleType:
    """infra/images/pins.py, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("posttrain_image_pins", INFRA / "images" / "pins.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_image_of_others_is_the_one_of_the_lock(pins: ModuleType) -> None:
    known = set(map(str, pins.read()))
    named = set(_named_in_dockerfiles()) | set(_named_in_manifests())
    assert len(named) == 3
    assert named == known
    assert subprocess.run([sys.executable, INFRA / "images" / "pins.py", "--check"]).returncode == 0
    # a comment that names a frontend makes the builder fetch an image, too
    assert not [path for path in INFRA.rglob("Dockerfile") if "syntax=" in path.read_text()]


def test_a_changed_tag_is_written_wherever_the_image_is_named(pins: ModuleType) -> None:
    pin = pins.Pin("docker.io/library/python", "3.12-slim", "sha256:" + "a" * 64)
    name = "docker.io/library/python"
    text = f"ARG A={name}:3.11-slim\nB: {name}@sha256:00\nC={name}3:1\n"
    assert pins.written(text, [pin]).splitlines() == [f"ARG A={pin}", f"B: {pin}", f"C={name}3:1"]
    assert pins.written(str(pin), [pin]) == str(pin)


class Registry(BaseHTTPRequestHandler):
    """A registry as the public ones are: a token for everybody, without which it refuses."""

    asked: list[str] = []  # noqa: RUF012  shared by all of its requests, on purpose

    def do_GET(self) -> None:
        """Answer for one image of two platforms and one of a single one."""
        self.asked.append(self.path)
        if self.path.startswith("/token?"):
            return self._answer(200, b'{"token": "for-everybody"}')
        if self.headers.get("Authorization") != "Bearer for-everybody":
            address = f"http://{self.headers['Host']}/token"
            return self._answer(401, b"", f'Bearer realm="{address}",service="s",scope="repository:team/image:pull"')
        assert "image.index" in self.headers["Accept"]
        found = {"/v2/team/image/manifests/1.2": INDEX, "/v2/team/image/manifests/one": b'{"layers": []}'}
        body = found.get(self.path)
        return self._answer(200, body) if body else self._answer(404, b"{}")

    def _answer(self, status: int, body: bytes, challenge: str = "") -> None:
        self.send_response(status)
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def registry() -> Iterator[str]:
    """A registry on this machine; its host and port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


def test_a_digest_is_what_the_registry_has_under_the_tag(pins: ModuleType, registry: str) -> None:
    old = pins.Pin(f"{registry}/team/image", "1.2", "sha256:" + "0" * 64)
    assert pins.renewed(old, "http").digest == f"sha256:{hashlib.sha256(INDEX).hexdigest()}"
    assert "/token?service=s&scope=repository%3Ateam%2Fimage%3Apull" in Registry.asked
    with pytest.raises(ValueError, match="one platform only"):
        pins.renewed(pins.Pin(f"{registry}/team/image", "one", old.digest), "http")
    with pytest.raises(OSError, match="404"):
        pins.renewed(pins.Pin(f"{registry}/team/image", "none", old.digest), "http")


@pytest.mark.parametrize("base", ["docker.io/library/python:3.11", "python", "registry.example/python:3.11"])
def test_a_base_that_is_named_by_tag_is_refused(base: str) -> None:
    build = INFRA / "images" / "build.sh"
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "BASE_IMAGE": base, "REVISION": "x", "PYTHON": sys.executable}
    done = subprocess.run([build, "cpu"], env=variables, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(f"BASE_IMAGE={base}: a tag may mean another image tomorrow")


def test_the_zeros_that_stand_for_our_own_images_are_refused() -> None:
    values = yaml.safe_load((INFRA / "airflow" / "values.yaml").read_text())
    images = [item["value"] for item in values["env"] if item["name"].startswith("POSTTRAIN_IMAGE_")]
    assert len(images) == 2
    for image in (text.replace("ACCOUNT", "123456789012") for text in images):
        with pytest.raises(ValueError, match="placeholder"):
            pinned_image(image)
        assert pinned_image(image.replace("0" * 64, "a" * 64))


def _named_in_dockerfiles() -> Iterator[str]:
    for path in INFRA.rglob("Dockerfile"):
        text = path.read_text()
        stages = set(re.findall(r"^FROM .* AS (\S+)$", text, re.MULTILINE))
        bases = set(re.findall(r"^FROM (\S+)", text, re.MULTILINE))
        bases |= set(re.findall(r"^ARG BASE_IMAGE=(\S+)", text, re.MULTILINE))
        yield from bases - stages - {"${BASE_IMAGE}", "${POSTTRAIN_IMAGE}"}  # the second is ours


def _named_in_manifests() -> Iterator[str]:
    for path in [*(INFRA / "kubernetes").rglob("*.yaml"), INFRA / "airflow" / "rbac.yaml"]:
        for document in yaml.safe_load_all(Path(path).read_text()):
            yield from (image for image in _images(document) if not image.startswith(OURS))


def _images(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "image" and isinstance(inner, str):
                yield inner
            else:
                yield from _images(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _images(inner)

"""Pins of base and third-party images: pins.lock holds them, the files that use them carry the same text.

    python infra/images/pins.py             write what pins.lock says to every file below infra that names such an image
    python infra/images/pins.py --renew     first ask each registry what its tag means today, and write pins.lock
    python infra/images/pins.py --check     only see that all files agree; exits 1 if not

To go to another tag, change it in pins.lock and run --renew. Nothing is pulled; a registry is asked for one manifest.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlencode

INFRA = Path(__file__).parents[1]
LOCK = INFRA / "images" / "pins.lock"
USERS = ("images/Dockerfile", "airflow/Dockerfile", "kubernetes/**/*.yaml", "airflow/*.yaml")
"""Files of infra that may name an image of others."""
HOSTS = {"docker.io": "registry-1.docker.io"}
"""Names of registries whose interface is elsewhere."""
INDEXES = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json"
"""Manifests of an image for several platforms; one for a single platform would bind everybody to it."""
LINE = re.compile(r"(?P<name>[a-z0-9.-]+(:\d+)?/[a-z0-9._/-]+):(?P<tag>[\w.-]+)@(?P<digest>sha256:[0-9a-f]{64})")
TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Pin:
    """An image of others: host/path, the tag that people read, and the digest that is pulled."""

    name: str
    tag: str
    digest: str

    def __str__(self) -> str:
        return f"{self.name}:{self.tag}@{self.digest}"


def read(lock: Path = LOCK) -> list[Pin]:
    """Return the pins of the lock; ends the program with one line for a line that is none."""
    pins = []
    for number, line in enumerate(lock.read_text().splitlines(), 1):
        if line and not line.startswith("#"):
            found = LINE.fullmatch(line)
            if not found:
                sys.exit(f"{lock}:{number}: expected host/name:tag@sha256:<64 hexadecimal digits>, not {line!r}")
            pins.append(Pin(found["name"], found["tag"], found["digest"]))
    return pins


def written(text: str, pins: list[Pin]) -> str:
    """Return a file's text with each of the pinned images as the pins say it, whatever tag or digest it had."""
    for pin in pins:
        text = re.sub(rf"{re.escape(pin.name)}(:[\w.-]+)?(@sha256:[0-9a-f]*)?(?![\w/.-])", str(pin), text)
    return text


def users(infra: Path = INFRA) -> Iterator[Path]:
    """Yield the files that may name an image of others."""
    return (path for pattern in USERS for path in sorted(infra.glob(pattern)))


def renewed(pin: Pin, scheme: str = "https") -> Pin:
    """Return a pin with what its tag means in its registry now; raises OSError or ValueError where that is unknown."""
    host, _, path = pin.name.partition("/")
    address = f"{scheme}://{HOSTS.get(host, host)}/v2/{path}/manifests/{pin.tag}"
    try:
        body = _asked(address, {"Accept": INDEXES})
    except urllib.error.HTTPError as error:
        if error.code != 401:
            raise
        token = _token(error.headers.get("WWW-Authenticate", ""))
        body = _asked(address, {"Accept": INDEXES, "Authorization": f"Bearer {token}"})
    if "manifests" not in json.loads(body):
        raise ValueError("the registry has it for one platform only")
    return replace(pin, digest=f"sha256:{hashlib.sha256(body).hexdigest()}")


def _token(challenge: str) -> str:
    """Return the token that lets anybody read, from where a registry's refusal says."""
    asked = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = asked.pop("realm", "")
    if not realm:
        raise ValueError("the registry is closed to anonymous readers")
    answer = json.loads(_asked(f"{realm}?{urlencode(asked)}", {}))
    return str(answer.get("token") or answer.get("access_token"))


def _asked(address: str, headers: dict[str, str]) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=TIMEOUT_SECONDS) as answer:
        return bytes(answer.read())


def _renew_lock() -> None:
    old = read()
    new = []
    for pin in old:
        try:
            new.append(renewed(pin))
        except (OSError, ValueError) as error:
            sys.exit(f"{pin.name}:{pin.tag}: {error}; nothing was changed")
    head = [line for line in LOCK.read_text().splitlines() if line.startswith("#")]
    LOCK.write_text("\n".join([*head, *sorted(map(str, new))]) + "\n")
    for before, after in zip(old, new, strict=True):
        print(after if before == after else f"{after} (was {before.digest})")


def main(arguments: list[str]) -> int:
    """Write, renew or check the pins."""
    if set(arguments) - {"--renew", "--check"}:
        sys.exit("usage: pins.py [--renew | --check]")
    if "--renew" in arguments:
        _renew_lock()
    pins, stale = read(), []
    for path in users():
        text = path.read_text()
        if written(text, pins) != text:
            stale.append(path)
            if "--check" not in arguments:
                path.write_text(written(text, pins))
    for path in stale:
        print(f"{path}: {'does not say what pins.lock says' if '--check' in arguments else 'written'}")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

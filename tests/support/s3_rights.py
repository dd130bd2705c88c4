"""What an IAM policy lets an account do with objects, kept in front of a local S3 server as AWS keeps it.

moto does not check resources of a batch delete, so this does: each key by itself, refused ones in the answer's body.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

IDENTITY = Path(__file__).parents[2] / "infra" / "terraform" / "aws" / "identity.tf"
RIGHT = re.compile(r"^ +(\w+) += \{ prefix = \"(\w+)\", writes = \[(.*?)\], deletes = \[(.*?)\] \}$", re.MULTILINE)
S3 = "http://s3.amazonaws.com/doc/2006-03-01/"
DENIED = "<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True)
class Rights:
    """Which keys of a bucket an account may write and delete; a star stands for any characters."""

    writes: tuple[str, ...]
    deletes: tuple[str, ...]

    def may(self, patterns: tuple[str, ...], key: str) -> bool:
        """Return whether one of the patterns matches the key."""
        return any(fnmatchcase(key, pattern) for pattern in patterns)


def account_rights() -> Mapping[str, Rights]:
    """Return service account -> rights, as infra/terraform/aws gives them."""
    found = {}
    for account, prefix, writes, deletes in RIGHT.findall(IDENTITY.read_text()):
        parts = (tuple(f"{prefix}/{part}" for part in re.findall(r'"(.*?)"', text)) for text in (writes, deletes))
        found[account] = Rights(*parts)
    return found


def kept(app: App, rights: Rights) -> App:
    """Return an application of S3 that keeps an account's rights; reading is free, as in a store it is."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        key = unquote(environ["PATH_INFO"]).lstrip("/").partition("/")[2]
        if method == "POST" and "delete" in query:
            return _delete_each(app, rights, environ, start_response)
        patterns = rights.deletes if method == "DELETE" and "uploadId" not in query else rights.writes
        if method in ("PUT", "POST", "DELETE") and key and not rights.may(patterns, key):
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [DENIED.encode()]
        return app(environ, start_response)

    return answer


def _delete_each(app: App, rights: Rights, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Carry out what is allowed of a batch delete, and name the rest in the answer, which is 200 all the same."""
    body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    asked = ET.fromstring(body)
    ET.register_namespace("", S3)
    space = f"{{{S3}}}" if asked.tag.startswith(f"{{{S3}}}") else ""
    refused = []
    for one in asked.findall(f"{space}Object"):
        key = one.findtext(f"{space}Key") or ""
        if not rights.may(rights.deletes, key):
            refused.append(key)
            asked.remove(one)
    told: list[Any] = []
    answered = ET.Element("DeleteResult")
    if asked.findall(f"{space}Object"):
        forwarded = ET.tostring(asked)
        more = {"wsgi.input": io.BytesIO(forwarded), "CONTENT_LENGTH": str(len(forwarded))}
        got = b"".join(app({**environ, **more}, lambda *line: told.append(line)))
        assert told[0][0].startswith("200"), got
    for key in refused:
        error = ET.SubElement(answered, "Error")
        for name, text in (("Key", key), ("Code", "AccessDenied"), ("Message", "Access Denied")):
            ET.SubElement(error, name).text = text
    start_response("200 OK", [("Content-Type", "application/xml")])
    return [ET.tostring(answered)]

"""A local S3 server (moto over real HTTP) and the environment that points every client at it."""

from __future__ import annotations

import http.client
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.s3_rights import App, Rights, kept


@contextmanager
def local_s3(
    host: str = "127.0.0.1", rights: Rights | None = None, around: Callable[[App], App] | None = None
) -> Iterator[str]:
    """Serve S3 on a free port of this machine and yield its URL; it holds its objects in memory.

    With `rights` what an account may not do is refused as AWS refuses it. `around` may answer before moto does.

    Requests are carried out one at a time: moto checks If-None-Match and writes in two steps, so that two racing
    writers could both win, which S3 rules out.
    """
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = DomainDispatcherApplication(create_backend_app)
    app = kept(app, rights) if rights else app
    app = around(app) if around else app
    turn = threading.Lock()

    def one_at_a_time(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        with turn:
            return list(app(environ, start_response))

    server = make_server(host, 0, one_at_a_time, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()


def s3_environment(endpoint: str, cache: Path) -> dict[str, str]:
    """Return the variables with which the store, boto3 and MLflow use the server at `endpoint` and nothing
    else."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(cache / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(cache / "no-credentials"),
        "POSTTRAIN_CACHE": str(cache),
    }


def make_bucket(endpoint: str, name: str) -> None:
    """Create a bucket on the local server, which checks no signatures."""
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=60)
    connection.request("PUT", f"/{name}")
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()


def in_memory_writer(bucket: str, prefix: str) -> Callable[[str, bytes], object]:
    """Return a function that puts objects below a prefix into the server of this process, without requests."""
    from moto.backends import get_backend

    (account,) = get_backend("s3").values()
    backend = account["aws"]
    return lambda key, data: backend.put_object(bucket, f"{prefix}/{key}", data)

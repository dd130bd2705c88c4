"""What may answer at Kubeflow's address: each is one line that says what to do, and none reaches a terminal raw."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import kfp_server_api
import pytest
import yaml

from components.contract.errors import InputError
from pipelines.engines.kubeflow.client.account import Account
from pipelines.engines.kubeflow.client.api import Client
from pipelines.engines.kubeflow.client.rest import KubeflowUnavailable, NotFound, NotNow, Refused, Rest
from pipelines.engines.shared.follower import OrchestratorAway


@dataclass
class Server:
    """Answers everything with one answer, and keeps what it was asked."""

    url: str = ""
    status: int = 200
    text: str = "{}"
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)


@contextmanager
def serving() -> Iterator[Server]:
    """Serve on a free port."""
    told = Server()

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            told.asked.append((self.command, self.path, json.loads(body or "null")))
            self.send_response(told.status)
            for name, value in told.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(told.text.encode())

        do_GET = do_POST = do_DELETE = _any

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_port}"
    yield told
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as told:
        yield told


PAGE = "<!doctype html><title>Sign in</title>"


@pytest.mark.parametrize(
    ("status", "text", "kind", "said"),
    [
        (200, PAGE, Refused, "answers with a page.*https://HOST/pipeline.*no login"),
        (200, "[1]", Refused, "answers with a page"),
        (404, PAGE, Refused, "HTTP 404: Not Found: no Kubeflow Pipelines is there"),
        (404, '{"error": "run x not found"}', NotFound, "HTTP 404: run x not found$"),
        (400, '{"error_message": "Invalid input: a namespace is missing"}', Refused, "asked for no namespace"),
        (400, '{"error": "cannot be retried"}', NotNow, "HTTP 400: cannot be retried$"),
        (403, '{"message": "alice may not"}', Refused, "HTTP 403: alice may not .*POSTTRAIN_KUBEFLOW_NAMESPACE"),
        (401, "", Refused, "refuses the login: HTTP 401: Unauthorized: set POSTTRAIN_KUBEFLOW_TOKEN_FILE or"),
        (500, '{"error": "Request entity too large"}', KubeflowUnavailable, "HTTP 500: Request entity too large"),
        (503, "upstream connect error", KubeflowUnavailable, "HTTP 503: upstream connect error"),
    ],
)
def test_every_answer_is_one_line(server: Server, status: int, text: str, kind: type, said: str) -> None:
    server.status, server.text = status, text
    with pytest.raises(kind, match=said) as caught:
        Client(Account(server.url)).state("x")
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, OrchestratorAway) == (status >= 500), "only these are waited for"


def test_a_redirect_to_a_login_is_said_and_not_followed(server: Server) -> None:
    server.status, server.headers = 302, {"Location": f"{server.url}/dex/auth?\x9bred"}
    with pytest.raises(Refused, match=r"asks for a login, at http://.*/dex/auth.*no login") as caught:
        Client(Account(server.url)).state("x")
    assert str(caught.value).isprintable() and len(server.asked) == 1


def test_what_is_wrong_with_https_is_said_and_not_waited_for(server: Server) -> None:
    with pytest.raises(Refused, match=r"Kubeflow at https://127.*SSL.*SSL_CERT_FILE names the certificates to trust"):
        Client(Account(server.url.replace("http://", "https://"))).state("x")


def test_nobody_there_is_one_plain_line() -> None:
    with pytest.raises(
        KubeflowUnavailable, match=r"^Kubeflow at http://127\.0\.0\.1:9 does not answer: Connection refused$"
    ):
        Client(Account("http://127.0.0.1:9")).state("x")


def test_what_a_server_says_is_spelled_out_and_cut(server: Server) -> None:
    server.status, server.text = 500, json.dumps({"error": "\x1b[31mred\n\u202e" + "x" * 5000})
    with pytest.raises(KubeflowUnavailable) as caught:
        Client(Account(server.url)).state("x")
    assert "\\x1b[31mred" in str(caught.value) and str(caught.value).isprintable() and len(str(caught.value)) < 500


def test_an_answer_without_an_id_is_no_run(server: Server) -> None:
    with pytest.raises(Refused, match="answers POST /runs without run_id"):
        Rest(Account(server.url)).ask_for("run_id", "POST", "/runs", {})


@pytest.mark.parametrize("url", ["kubeflow.example.com", "ftp://k", "http://a b", "https://k\x1b[0m"])
def test_an_address_that_is_none_is_said_before_anything_is_asked(url: str) -> None:
    with pytest.raises(InputError, match=r"POSTTRAIN_KUBEFLOW_URL=.*expected an address"):
        Account.read({"POSTTRAIN_KUBEFLOW_URL": url})


def test_a_token_that_would_end_a_header_is_refused_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="POSTTRAIN_KUBEFLOW_TOKEN: not a token") as caught:
        Account.read({"POSTTRAIN_KUBEFLOW_URL": "http://k", "POSTTRAIN_KUBEFLOW_TOKEN": "secret\r\nX-Evil: 1"})
    assert "secret" not in str(caught.value)
    (tmp_path / "token").write_text("two\nlines\n")
    with pytest.raises(InputError, match="not a token"):
        Account.read({"POSTTRAIN_KUBEFLOW_URL": "http://k", "POSTTRAIN_KUBEFLOW_TOKEN_FILE": str(tmp_path / "token")})


def test_a_tasks_own_token_is_read_where_kubeflow_puts_it(server: Server, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    environ = {"KF_PIPELINES_SA_TOKEN_PATH": str(tmp_path / "token")}
    account = Account.inside(server.url, environ)
    assert account.present_token() == "one"
    (tmp_path / "token").write_text("two\n")
    assert account.present_token() == "two"
    assert Account.inside(server.url, {"KF_PIPELINES_SA_TOKEN_PATH": str(tmp_path / "none")}).present_token() is None


def test_kfps_own_models_know_every_field_that_is_sent_and_its_client_every_address(server: Server) -> None:
    """kfp_server_api is generated from the server's interface."""
    pipeline = "root: {}\n---\nplatforms: {}\n"
    client = Client(Account(server.url, namespace="team", service_account="runner", mlflow_plugin=True))
    server.text = json.dumps({"experiment_id": "e", "run_id": "r", "recurring_run_id": "s", "display_name": "n"})
    client.submit(pipeline, {}, name="n", experiment="x", words="w")
    client.schedule(pipeline, {}, name="n", cron="0 0 * * *", words="w")
    models = {"runs": "Run", "experiments": "Experiment", "recurringruns": "RecurringRun"}
    sent = [(path.split("?")[0].rsplit("/", 1)[1], body) for verb, path, body in server.asked if verb == "POST"]
    assert [name for name, _ in sent] == ["experiments", "runs", "experiments", "recurringruns"]
    for name, body in sent:
        model = getattr(kfp_server_api, f"V2beta1{models[name]}")
        assert body.keys() <= set(model.attribute_map.values())
        model(**body)
    before = len(server.asked)
    client.going_beside("e", "w")
    client.recurring_runs()
    for act in (client.state, client.terminate, client.retry):
        act("a b/c")
    client.disable_recurring_run("s")
    client.delete_recurring_run("s")
    ours = [(verb, path.split("?")[0]) for verb, path, _ in server.asked[before:]]
    server.asked.clear()
    _ask_with_kfp(server.url)
    assert ours == [(verb, path.split("?")[0]) for verb, path, _ in server.asked]


def _ask_with_kfp(url: str) -> None:
    api = kfp_server_api.ApiClient(kfp_server_api.Configuration(host=url))
    runs, recurring = kfp_server_api.RunServiceApi(api), kfp_server_api.RecurringRunServiceApi(api)
    runs.run_service_list_runs()
    recurring.recurring_run_service_list_recurring_runs()
    runs.run_service_get_run("a b/c")
    runs.run_service_terminate_run("a b/c")
    runs.run_service_retry_run("a b/c")
    recurring.recurring_run_service_disable_recurring_run("s")
    recurring.recurring_run_service_delete_recurring_run("s")


def test_a_pipeline_that_is_sent_is_yaml_of_two_documents(server: Server) -> None:
    server.text = json.dumps({"experiment_id": "e", "run_id": "r"})
    text = yaml.safe_dump_all([{"root": {"inputDefinitions": {"parameters": {"a": {}}}}}, {"platforms": {}}])
    with pytest.raises(InputError, match="parameter 'a' has no default"):
        Client(Account(server.url)).submit(text, {}, name="n", experiment="x")
    assert server.asked == []
    parent = {"experiment_id": "e", "service_account": "runner", "plugins_input": {"mlflow": {"experiment_name": "x"}}}
    Client(Account(server.url)).submit_beside(parent, text, {"a": 1}, name="n", words="w")
    ((_, _, body),) = server.asked
    assert (body["experiment_id"], body["service_account"]) == ("e", "runner")
    assert body["plugins_input"] == {"mlflow": {"disabled": True}}

"""Steps: a run is deleted while it works, and a login expires under our command."""

from __future__ import annotations

from pathlib import Path

from components.runtime.store import Store
from tests.cluster.act import POLL_SECONDS, RUN_SECONDS, Act, Wrong, last_line
from tests.cluster.checks import record_of
from tests.cluster.engines import told
from tests.cluster.faults import TOO_SHORT, act_of, made_of
from tests.cluster.outcome import Result
from tests.cluster.session import KUBEFLOW, LeftOut, Session

TOKEN, TOKEN_FILE = "POSTTRAIN_KUBEFLOW_TOKEN", "POSTTRAIN_KUBEFLOW_TOKEN_FILE"
URL = "POSTTRAIN_KUBEFLOW_URL"
ACCOUNT = "posttrain"
SECRET = "test-cluster-token"
AUDIENCE = "pipelines.kubeflow.org"
LOGIN_SECONDS = "3600s"
EXPIRY_SECONDS = 900.0
"""How long Kubeflow may take a token that has ended: API servers keep verdicts for a while."""
AWAY_LOOKS = 15


def delete(session: Session) -> Result:
    """Delete a run while a stage runs, as Ctrl-C does; then run the same command again."""
    with act_of(session, "kubeflow", "delete") as act:
        chosen = act.until(lambda: next(iter(act.seen.running().values()), None), RUN_SECONDS, "a pod that runs")
        if chosen is None:
            raise LeftOut(f"run {act.run_id}: {TOO_SHORT}")
        act.stop()
        before = done_times(session.store, act.run_id)
        left = act.left()
    wrong = [f"after the run was deleted: {text}" for text in left]
    if chosen.stage in before:
        wrong.append(f"stage {chosen.stage!r} was deleted while it ran, and the ledger has it as done")
    with act_of(session, "kubeflow", "delete") as again:
        again.end()
    wrong += resumed(session.store, act, again, before)
    said = f"deleted while {chosen.stage!r} ran, {len(before)} stages done; the same command went on"
    again.seen.pods = act.seen.pods | again.seen.pods if again.run_id == act.run_id else again.seen.pods
    return told(again, wrong, said)


def resumed(store: Store, act: Act, again: Act, before: dict[str, str]) -> list[str]:
    """Check that a second command did none of the work again that was done before the first was stopped."""
    after = record_of(store, again.run_id).stages
    repeated = []
    for stage, ended in before.items():
        entry = after.get(stage)
        same_run = again.run_id == act.run_id
        if entry is not None and (entry["ended"] != ended if same_run else entry["cache"] == "miss"):
            repeated.append(f"stage {stage!r} was done before the run was deleted, and done again after it")
    return repeated


def done_times(store: Store, run_id: str) -> dict[str, str]:
    """Return when the stages that are done ended."""
    return {name: entry["ended"] for name, entry in record_of(store, run_id).stages.items()}


def token(session: Session) -> Result:
    """Let the login of our command expire while it follows a run, and renew it: it must go on."""
    if TOKEN in session.environ:
        raise LeftOut(f"{TOKEN} holds a token that cannot be renewed: name a file in {TOKEN_FILE} instead")
    if refuses(session.environ.get(URL, ""), "nobody") is False:
        raise LeftOut("this Kubeflow asks for no token")
    path = session.folder / "token"
    kept = session.environ.get(TOKEN_FILE)
    session.environ[TOKEN_FILE] = str(path)
    try:
        return expired(session, path)
    finally:
        path.unlink(missing_ok=True)
        session.environ.pop(TOKEN_FILE)
        session.environ |= {TOKEN_FILE: kept} if kept else {}


def expired(session: Session, path: Path) -> Result:
    """Run quickstart with a token whose Secret is deleted on the way, which ends it at once."""
    metadata = {"name": SECRET, "namespace": KUBEFLOW}
    bound = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
    made = made_of(session)
    with made.for_a_while(bound):
        write_token(path, new_token(session, bound=True))
        act = Act.begin(session, "kubeflow", "token")
    try:  # its Secret is gone, and the token with it
        url, dead = session.environ[URL], path.read_text()
        gone = act.until(lambda: refuses(url, dead) or None, EXPIRY_SECONDS, "a refusal of the token")
        if gone is None:
            raise Wrong(f"run {act.run_id}: the command ended before its token did: {last_line(act.going)}")
        for _ in range(AWAY_LOOKS):  # its requests are refused meanwhile
            act.look()
            session.sleep(POLL_SECONDS)
        wrong = [f"the command ended when its token had: {last_line(act.going)}"] if act.going.code() else []
        write_token(path, new_token(session, bound=False))
        act.end()
    finally:
        act.leave()
    return told(act, wrong, "its token was refused for a while, and another one went on")


def new_token(session: Session, *, bound: bool) -> str:
    """Return a token of the account that our tasks run as; a bound one ends with its Secret."""
    words = ["--bound-object-kind", "Secret", "--bound-object-name", SECRET] if bound else []
    audience = ("--audience", AUDIENCE, "--duration", LOGIN_SECONDS)
    return session.kubectl.said("-n", KUBEFLOW, "create", "token", ACCOUNT, *audience, *words).strip()


def write_token(path: Path, text: str) -> None:
    """Write a token where only its owner reads it, at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".new")
    aside.touch(mode=0o600)
    aside.write_text(text)
    aside.replace(path)


def refuses(url: str, token: str) -> bool | None:
    """Return whether a Kubeflow refuses a token; None if it does not answer."""
    import urllib.error
    import urllib.request

    request = urllib.request.Request(f"{url}/apis/v2beta1/experiments", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=30):
            return False
    except urllib.error.HTTPError as error:
        return error.code in (401, 403)
    except (OSError, ValueError):
        return None

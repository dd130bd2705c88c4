"""Where lineage goes: the tracking URI and the settings of its MLflow client. Does not import MLflow."""

from __future__ import annotations

import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from components.contract.errors import PosttrainError
from components.runtime.store.access import make_private

if TYPE_CHECKING:
    from components.runtime.store import Store

VARIABLE = "MLFLOW_TRACKING_URI"
CREDENTIALS = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")
SQLITE = "sqlite:///"
HERE = Path(".posttrain")
"""Folder of the database if the store is a bucket."""
DATABASE = "mlflow.db"
ARTIFACTS = "mlflow-artifacts"
PROBE_SECONDS = 3.0
SCHEMES = ("", "file", "sqlite", "postgresql", "mysql", "mssql", "http", "https", "databricks", "databricks-uc", "uc")
"""Schemes of tracking URIs that MLflow supports itself; a database driver may follow after a plus sign."""
SQLITE_HEAD = b"SQLite format 3\0"
SECRET = re.compile(r"pass|pwd|secret|token|key", re.IGNORECASE)
"""Matches names of settings in a database's address that hold a secret."""
MOVE_AWAY = "move it away and run posttrain lineage sync"

# The HTTP layer must not resend a request that the server carried out but whose response was lost: runs and models
# would be made twice. So it never retries; the deliverer does, after looking for what already exists.
FIXED = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "15",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}


class LineageBlocked(PosttrainError):
    """The tracking server responds, but its state prevents recording a run."""


def tracking_uri(store: Store) -> str:
    """Return MLFLOW_TRACKING_URI if it is set, else a SQLite database beside the store."""
    given = os.environ.get(VARIABLE)
    if given:
        return given
    folder = HERE.absolute() if "://" in store.uri else Path(store.uri).parent
    return f"{SQLITE}{folder / DATABASE}"


def database_path(uri: str) -> Path | None:
    """Return the file of a SQLite tracking URI, or None for any other."""
    return Path(unquote(uri.removeprefix(SQLITE))) if uri.startswith(SQLITE) else None


def artifact_root(uri: str) -> str | None:
    """Return the artifact root for a SQLite tracking URI; None leaves it to the server."""
    database = database_path(uri)
    return (database.absolute().parent / ARTIFACTS).as_uri() if database else None


def configure_client() -> None:
    """Set MLflow's environment variables for bounded waits; call this before importing MLflow."""
    os.environ.update(FIXED)
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)


def unreachable(uri: str, *, seconds: float = PROBE_SECONDS) -> str | None:
    """Return why the tracking server cannot be used now, or None if no problem is found.

    An HTTP server gets `seconds` to respond; anything else is checked as far as possible without MLflow.
    """
    scheme, public = urlsplit(uri).scheme, without_credentials(uri)
    if scheme not in ("http", "https"):
        return _unknown_scheme(scheme, public) or _not_a_database(uri)
    try:
        with urllib.request.urlopen(f"{public.rstrip('/')}/health", timeout=seconds):
            return None
    except urllib.error.HTTPError as error:  # it responds; a proxy may not forward /health
        return f"{public}: HTTP {error.code}" if error.code >= 500 else None
    except OSError as error:
        return f"{public}: {error}"


def access_refused(uri: str, status: int) -> str | None:
    """Return what to do if the tracking server requires or refuses a user (HTTP 401, 403); None for other statuses.

    The user is MLflow's own setting, from its variables, ~/.mlflow/credentials or the address.
    """
    from mlflow.utils.credentials import read_mlflow_creds

    user = read_mlflow_creds().username or urlsplit(uri).username
    if status == HTTPStatus.UNAUTHORIZED:
        told = f"refuses the user {user!r} with this password" if user else "asks for a user and a password"
        return f"{told} (HTTP 401): set {CREDENTIALS[0]} and {CREDENTIALS[1]} to those of an account there"
    if status == HTTPStatus.FORBIDDEN:
        who = f"the user {user!r} may not write" if user else "nobody may write"
        return f"{who} what lineage needs (HTTP 403): the experiment or the model is another user's, or the address \
is none that the server answers to"
    return None


def _unknown_scheme(scheme: str, public: str) -> str | None:
    plugins = {plugin.name for plugin in entry_points(group="mlflow.tracking_store")}
    if scheme.partition("+")[0] in SCHEMES or scheme in plugins:
        return None
    known = ", ".join(sorted({*SCHEMES, *plugins} - {""}))
    return f"{public}: MLflow takes no {scheme}: address (known: a path, {known})"


def _not_a_database(uri: str) -> str | None:
    path = database_path(uri)
    if path is None or not path.exists():
        return None
    try:
        with path.open("rb") as stream:
            head = stream.read(len(SQLITE_HEAD))
    except OSError as error:
        return f"{path}: {error.strerror}"
    return f"{path} is not a database; {MOVE_AWAY}" if head and head != SQLITE_HEAD else None


def without_credentials(uri: str) -> str:
    """Return a URI without any user and password, before the host or in its query."""
    parts = urlsplit(uri)
    settings = parts.query.split("&")
    public = [setting for setting in settings if not SECRET.search(setting.partition("=")[0])]
    if "@" not in parts.netloc and public == settings:
        return uri
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="&".join(public)))


@contextmanager
def database_errors(uri: str) -> Iterator[None]:
    """Turn SQLAlchemy's errors for a damaged or unusable database into LineageBlocked, with what to do."""
    if urlsplit(uri).scheme in ("http", "https"):  # MLflow's client for servers does not use SQLAlchemy
        yield
        return
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        cause = " ".join(str(error.orig if isinstance(error, DBAPIError) else error).split())
        advice = f"; if the file is damaged, {MOVE_AWAY}" if database_path(uri) else ""
        raise LineageBlocked(f"{cause}{advice}") from error


def prepare_database(uri: str) -> None:
    """Create a SQLite database atomically: a kill while MLflow creates its tables would leave it unusable."""
    path = database_path(uri)
    if path is None or path.exists():
        return
    from mlflow.tracking import MlflowClient

    make_private(path.parent)
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    MlflowClient(f"{SQLITE}{draft}").search_experiments(max_results=1)
    with suppress(FileExistsError):  # another deliverer was faster
        os.link(draft, path)
    draft.unlink()

"""A local Airflow: its folder, its secrets and its settings. Imports no Airflow.

Everything is in one folder beside the store; only the owner can read the files with secrets.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.runtime.lineage.delivery.target import HERE
from components.runtime.store import Store
from components.runtime.system.code import ROOT
from pipelines.engines.airflow.names import STORE
from pipelines.engines.shared.launcher import PYTHON, stage_python
from pipelines.language.whole_file import write_whole

HOST = "127.0.0.1"
AIRFLOW_PYTHON = "POSTTRAIN_AIRFLOW_PYTHON"
"""Interpreter of Airflow's own environment; .venv-airflow beside the code unless set."""
PRIVATE = 0o600
PARSE_SECONDS = 300
REPARSE_SECONDS = 60
"""How soon an edited recipe is seen: reading all of them takes a second or two, and Airflow's 30 s are short for it."""
RECOVERY_SECONDS = 20
"""Silence after which a scheduler counts as dead: on one machine Airflow's 30 s or more is not needed."""


@dataclass(frozen=True)
class Deployment:
    """Files of one Airflow."""

    folder: Path

    @classmethod
    def beside(cls, store: Store) -> Deployment:
        """Return the deployment of a store."""
        base = HERE.absolute() if "://" in store.uri else Path(store.uri).parent
        return cls(base / "airflow")

    @property
    def passwords(self) -> Path:
        """Return the file with the passwords of all users, as Airflow reads it."""
        return self.folder / "passwords.json"

    @property
    def address(self) -> Path:
        """Return the file with this Airflow's address while it runs."""
        return self.folder / "address.json"

    @property
    def logs(self) -> Path:
        """Return the folder of the services' own logs."""
        return self.folder / "services"

    def prepare(self) -> dict[str, str]:
        """Create the missing folder, users and secrets; return the users with their passwords."""
        self.logs.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        users = self._kept(self.passwords, {name: secrets.token_urlsafe(9) for name in _roles()})
        return {name: users[name] for name in _roles() if name in users}

    def environment(self, store: Store, port: int, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the variables of its services: bound to this machine, none of a surrounding Airflow's settings."""
        keys = self._kept(self.folder / "keys.json", {name: secrets.token_urlsafe(32) for name in ("jwt", "api")})
        kept = {name: value for name, value in environ.items() if not name.startswith("AIRFLOW__")}
        settings = {
            "CORE__DAGS_FOLDER": ROOT / "dags",
            "CORE__LOAD_EXAMPLES": False,
            # Airflow gives up on a file, and so on all recipes, after 30 s if other work uses the cores
            "CORE__DAGBAG_IMPORT_TIMEOUT": PARSE_SECONDS,
            "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": 2 * PARSE_SECONDS,
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": REPARSE_SECONDS,
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": False,
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": max(4, 2 * (os.cpu_count() or 1)),
            "CORE__EXECUTION_API_SERVER_URL": f"http://{HOST}:{port}/execution/",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{name}:{role}" for name, role in _roles().items()),
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": self.passwords,
            "API__HOST": HOST,
            "API__PORT": port,
            "API__BASE_URL": f"http://{HOST}:{port}",
            "API__WORKERS": 1,
            "API__SECRET_KEY": keys["api"],
            "API_AUTH__JWT_SECRET": keys["jwt"],
            "SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": RECOVERY_SECONDS,
            "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": RECOVERY_SECONDS,
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": 3 * RECOVERY_SECONDS,
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": RECOVERY_SECONDS,
            "WORKERS__EXECUTION_API_TIMEOUT": 60,
            "USAGE_DATA_COLLECTION__ENABLED": False,
        }
        return {
            **kept,
            **{f"AIRFLOW__{name}": str(value) for name, value in settings.items()},
            "AIRFLOW_HOME": str(self.folder),
            STORE: store.uri,
            PYTHON: stage_python(environ),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), environ.get("PYTHONPATH")])),
            "PYTHONWARNINGS": "ignore",
        }

    def write_address(self, **facts: Any) -> None:
        """Write this Airflow's address, for the command line."""
        write_whole(self.address, json.dumps(facts, indent=2) + "\n")

    def read_address(self) -> dict[str, Any] | None:
        """Return the address the running Airflow has written, or None."""
        try:
            address: dict[str, Any] = json.loads(self.address.read_text())
            return address
        except (OSError, ValueError):
            return None

    def _kept(self, path: Path, fresh: dict[str, str]) -> dict[str, str]:
        """Return a private file's content, with missing entries added."""
        try:
            found = {**fresh, **json.loads(path.read_text())}
        except FileNotFoundError:
            found = fresh
        except ValueError:
            raise InputError(f"{path}: not JSON; remove it, and new secrets are made") from None
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
        with os.fdopen(descriptor, "w") as stream:
            stream.write(json.dumps(found, indent=2) + "\n")
        path.chmod(PRIVATE)
        return found


def airflow_python(environ: Mapping[str, str] = os.environ) -> str:
    """Return the interpreter with Airflow; raise InputError with a remedy if there is none."""
    own = ROOT / ".venv-airflow" / "bin" / "python"
    python = environ.get(AIRFLOW_PYTHON) or str(own)
    if not Path(python).exists():
        raise InputError(f"{python}: Airflow is not installed; `make airflow` does it ({AIRFLOW_PYTHON} names another)")
    return python


def person() -> str:
    """Return this machine's user, who is the administrator of a local Airflow."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a container may run under a user id without a name
        return "admin"
    return name if re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name) else "admin"


def _roles() -> dict[str, str]:
    return {person(): "admin", "viewer": "viewer"}

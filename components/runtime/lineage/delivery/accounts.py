"""Accounts of MLflow's server in a cluster: its settings file and its users, from the cluster's Secrets.

    python -m components.runtime.lineage.delivery.accounts

An init container runs it before the server on each start of the pod: a password changed in its Secret takes effect
after a restart. Users are kept in MLflow's own database; users other than these two are left alone. No secret is on a
command line or printed.

- MLFLOW_BACKEND_STORE_URI: the database
- MLFLOW_AUTH_CONFIG_PATH: where the server's settings file is written, readable only by its user
- POSTTRAIN_MLFLOW_PERMISSION: every user's permission on what others made: READ, USE, EDIT or MANAGE; not less, since
  gc keeps what MLflow's registry names, and has to see all of it
- MLFLOW_AUTH_ADMIN_USERNAME, MLFLOW_AUTH_ADMIN_PASSWORD: the admin, who creates people's accounts and may change all
- MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD: the user that delivers lineage and owns the experiments it makes
"""

from __future__ import annotations

import configparser
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.errors import InputError, PosttrainError

if TYPE_CHECKING:
    from mlflow.server.auth.sqlalchemy_store import SqlAlchemyStore

DATABASE, CONFIG = "MLFLOW_BACKEND_STORE_URI", "MLFLOW_AUTH_CONFIG_PATH"
PERMISSION = "POSTTRAIN_MLFLOW_PERMISSION"
ADMIN, STAGE = "MLFLOW_AUTH_ADMIN", "MLFLOW_TRACKING"
"""Prefixes of an account's variables: _USERNAME and _PASSWORD follow."""
PERMISSIONS = ("READ", "USE", "EDIT", "MANAGE")
MIN_PASSWORD_LENGTH = 12
"""MLflow rejects shorter ones."""
SECTION = "mlflow"
CACHE_SECONDS = 60
"""How long the server caches a successful login: each check costs a slow hash."""


@dataclass(frozen=True)
class Account:
    """A user of the server."""

    name: str
    password: str
    is_admin: bool = False


@dataclass(frozen=True)
class Accounts:
    """Configuration of the server: its database, the path of its settings, and its users."""

    database: str
    config: Path
    permission: str
    admin: Account
    stage: Account

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> Accounts:
        """Return the configuration from the variables; raise InputError with all that is missing or invalid."""
        names = [DATABASE, CONFIG, PERMISSION, *(f"{who}_{what}" for who in (ADMIN, STAGE) for what in _PARTS)]
        problems = [f"{name} is not set" for name in names if not environ.get(name)]
        given = {name: environ.get(name, "") for name in names}
        problems += _refused(given)
        if problems:
            raise InputError("accounts of MLflow: " + "; ".join(problems))
        admin, stage = ([given[f"{who}_{what}"] for what in _PARTS] for who in (ADMIN, STAGE))
        return cls(
            given[DATABASE], Path(given[CONFIG]), given[PERMISSION], Account(*admin, is_admin=True), Account(*stage)
        )

    def write_config(self) -> None:
        """Write MLflow's settings file, readable only by this user: the database's address holds a password."""
        settings = {
            "default_permission": self.permission,
            "database_uri": self.database,
            "admin_username": self.admin.name,  # the server needs the name even if the admin exists
            "auth_cache_ttl_seconds": str(CACHE_SECONDS),
        }
        parser = configparser.ConfigParser()
        parser[SECTION] = {name: value.replace("%", "%%") for name, value in settings.items()}
        descriptor, draft = tempfile.mkstemp(dir=self.config.parent)  # readable only by this user
        with os.fdopen(descriptor, "w") as stream:
            parser.write(stream)
        Path(draft).replace(self.config)

    def make(self) -> list[str]:
        """Create the users or correct their passwords and rights; return a line for each one that was changed."""
        os.environ[CONFIG] = str(self.config)  # read when MLflow's module is imported
        from mlflow.server.auth.sqlalchemy_store import SqlAlchemyStore

        store = SqlAlchemyStore()
        store.init_db(self.database)
        return [line for account in (self.admin, self.stage) if (line := _settle(store, account))]


_PARTS = ("USERNAME", "PASSWORD")


def _refused(given: Mapping[str, str]) -> list[str]:
    """Return the problems of variables that are set, without their secrets."""
    problems = []
    if given[PERMISSION] and given[PERMISSION] not in PERMISSIONS:
        problems.append(f"{PERMISSION}={given[PERMISSION]!r} (known: {', '.join(PERMISSIONS)})")
    for who in (ADMIN, STAGE):
        if 0 < len(given[f"{who}_PASSWORD"]) < MIN_PASSWORD_LENGTH:
            problems.append(f"{who}_PASSWORD has fewer than {MIN_PASSWORD_LENGTH} characters")
    admin, stage = given[f"{ADMIN}_USERNAME"], given[f"{STAGE}_USERNAME"]
    if admin and admin == stage:
        problems.append(f"{STAGE}_USERNAME is the admin, {admin!r}; stages need a user of their own")
    return problems


def _settle(store: SqlAlchemyStore, account: Account) -> str | None:
    """Create or update a user; return what was done, or None if nothing had to change."""
    kind = "admin" if account.is_admin else "user"
    if not store.has_user(account.name):
        store.create_user(account.name, account.password, is_admin=account.is_admin)
        return f"{kind} {account.name!r} is made"
    right = store.authenticate_user(account.name, account.password)
    if right and store.get_user(account.name).is_admin == account.is_admin:
        return None
    store.update_user(account.name, password=account.password, is_admin=account.is_admin)
    return f"{kind} {account.name!r} has the password and the rights that its Secret says"


def main() -> int:
    """Write the settings and create the users; exit 1 with one line if the database cannot be used."""
    try:
        accounts = Accounts.read()
        accounts.write_config()
        from mlflow.exceptions import MlflowException

        from components.runtime.lineage.delivery.target import database_errors

        try:
            with database_errors(accounts.database):
                done = accounts.make()
        except MlflowException as error:
            raise PosttrainError(error.message) from error
    except PosttrainError as error:
        print(f"posttrain: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"posttrain: {CONFIG}: {error}", file=sys.stderr)
        return 1
    print("\n".join(done) or "users of MLflow: as their Secrets say")
    return 0


if __name__ == "__main__":
    sys.exit(main())

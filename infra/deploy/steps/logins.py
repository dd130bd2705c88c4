"""Step logins: Secrets of the cluster, each drawn once and never changed; values are in no file, argument or state."""

from __future__ import annotations

import base64
import json
import secrets
from typing import Any
from urllib.parse import quote

from infra.deploy.site import Change, Site
from infra.deploy.tools import StepFailed

AIRFLOW = ("airflow-database", "airflow-fernet-key", "airflow-api-key", "airflow-jwt")
SHARED = ("mlflow-stage", "object-store")
"""Secrets with the same values in several namespaces."""
UNREADABLE = {
    "airflow-fernet-key": ": save it, or what is encrypted in Airflow's database (connections, variables) is lost",
}
"""Secrets without which a database that stays cannot be read in full."""
MARK = {"app.kubernetes.io/managed-by": "posttrain-deploy"}
Data = dict[str, str]


class Logins:
    """Which Secrets there have to be, in which namespaces; one that exists keeps its values."""

    name = "logins"

    def __init__(self, site: Site) -> None:
        self.site = site

    def plan(self) -> Change:
        """Return the Secrets that are missing."""
        if not self.site.cluster_is_there:
            return Change([f"+ Secret {space}/{name}" for space, name in self.places()])
        return Change([f"+ Secret {space}/{name}" for space, name in self.places() if self._kept(space, name) is None])

    def apply(self) -> None:
        """Make the namespaces and the Secrets that are missing."""
        made: dict[tuple[str, str], Data] = {}
        for space, name in self.places():
            kept = self._kept(space, name)
            made[space, name] = kept if kept is not None else self._new(space, name, made)
            if kept is None:
                self._namespace(space)
                self._create(
                    {"kind": "Secret", "metadata": {"name": name, "namespace": space}, "stringData": made[space, name]}
                )

    def wait(self) -> None:
        """Nothing: a Secret is there at once. What waited for it is looked at by the step ready."""

    def removal(self) -> Change:
        """Return the Secrets that are there."""
        there = [place for place in self.places() if self.site.cluster_is_there and self._kept(*place) is not None]
        stays = self.site.settings.is_cloud and not self.site.settings.destroy_data
        return Change([f"- Secret {space}/{name}{UNREADABLE.get(name, '') if stays else ''}" for space, name in there])

    def remove(self) -> None:
        """Delete them, and the namespaces that were made for them."""
        for space, name in self.places():
            self.site.kubectl("-n", space, "delete", "secret", name, "--ignore-not-found")
        own = ",".join(f"{key}={value}" for key, value in MARK.items())
        self.site.kubectl("delete", "namespaces", "-l", own, "--wait", "--timeout=600s", seconds=660)

    def places(self) -> list[tuple[str, str]]:
        """Return namespace and name of each Secret, first those that others repeat."""
        settings = self.site.settings
        cloud = {"local": ["postgres", "object-store"], "gcp": ["mlflow-bucket"]}.get(settings.cloud, [])
        found = [("posttrain", name) for name in (*cloud, "mlflow-stage", "mlflow-database", "mlflow-server")]
        shared = [name for name in ("mlflow-stage", "object-store") if ("posttrain", name) in found]
        found += [("kubeflow", name) for name in shared if "kubeflow" in settings.engines]
        if "airflow" in settings.engines:
            cloud = {"local": ["postgres", "object-store"], "gcp": ["airflow-bucket"]}.get(settings.cloud, [])
            found += [("airflow", name) for name in (*cloud, *AIRFLOW)]
        return found

    def _new(self, space: str, name: str, made: dict[tuple[str, str], Data]) -> Data:
        """Return new values of a Secret; those that several namespaces share are taken from the first."""
        if name in SHARED and (again := next((data for (_, other), data in made.items() if other == name), None)):
            return again
        owner = "mlflow" if space == "posttrain" else space
        stage = {"MLFLOW_TRACKING_USERNAME": "stage", "MLFLOW_TRACKING_PASSWORD": secrets.token_hex(16)}
        server = {
            "admin-username": "admin",
            "admin-password": secrets.token_hex(16),
            "forms-key": secrets.token_hex(32),
        }
        simple: dict[str, Data] = {
            "mlflow-stage": stage,
            "mlflow-server": server,
            "object-store": {"AWS_ACCESS_KEY_ID": secrets.token_hex(8), "AWS_SECRET_ACCESS_KEY": secrets.token_hex(16)},
            "airflow-fernet-key": {"fernet-key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()},
            "airflow-api-key": {"api-secret-key": secrets.token_hex(32)},
            "airflow-jwt": {"jwt-secret": secrets.token_hex(64)},
            "postgres": {"POSTGRES_USER": owner, "POSTGRES_PASSWORD": secrets.token_hex(16)},  # of overlays/local
        }
        if name in simple:
            return simple[name]
        if name.endswith("-bucket"):
            return self._bucket_key(owner)
        if self.site.settings.cloud == "local":
            return self._address(owner, owner, made[space, "postgres"]["POSTGRES_PASSWORD"], "postgres")
        return self._address(owner, *self._cloud_login(owner))

    def _address(self, name: str, user: str, password: str, host: str) -> Data:
        """Return the address of a database, as MLflow and as Airflow's chart ask for it."""
        address = f"{quote(user, safe='')}:{quote(password, safe='')}@{host}/{name}"
        return (
            {"uri": f"postgresql+psycopg2://{address}"}
            if name == "mlflow"
            else {"connection": f"postgresql://{address}"}
        )

    def _cloud_login(self, name: str) -> tuple[str, str, str]:
        given = self.site.outputs.get("databases", {}).get(name)
        if not given:
            raise StepFailed(f"terraform made no database {name}: take the step cloud first, or name it in `databases`")
        if self.site.settings.cloud == "aws":
            words = ("--secret-id", given["secret"], "--region", self.site.outputs["region"])
            told = self.site.tools.said(
                "aws", "secretsmanager", "get-secret-value", *words, "--query", "SecretString", "--output", "text"
            )
            login = json.loads(told)
            return login["username"], login["password"], given["host"]
        # Cloud SQL keeps no password that can be read: a new one is set, through a pipe.
        password = secrets.token_hex(16)
        where = ("--instance", given["instance"], "--project", self.site.outputs["project"])
        users = self.site.tools.said("gcloud", "sql", "users", "list", *where, "--format", "value(name)").split()
        verb = "set-password" if name in users else "create"
        options = (verb, name, *where, "--flags-file", "/dev/stdin")
        self.site.tools.run("gcloud", "sql", "users", *options, given=json.dumps({"--password": password}))
        return name, password, given["host"]

    def _bucket_key(self, role: str) -> Data:
        """Return a key by which programs that only speak S3 (MLflow, Airflow's logs) reach a bucket of Google's."""
        words = ("--project", self.site.outputs["project"], "--format", "json")
        told = json.loads(
            self.site.tools.said("gcloud", "storage", "hmac", "create", self.site.outputs["roles"][role], *words)
        )
        return {"AWS_ACCESS_KEY_ID": told["metadata"]["accessId"], "AWS_SECRET_ACCESS_KEY": told["secret"]}

    def _kept(self, space: str, name: str) -> Data | None:
        words = ("-n", space, "get", "secret", name, "-o", "json", "--ignore-not-found")
        told = self.site.kubectl(*words).stdout.strip()
        if not told:
            return None
        return {key: base64.b64decode(value).decode() for key, value in json.loads(told).get("data", {}).items()}

    def _namespace(self, name: str) -> None:
        if not self.site.kubectl("get", "namespace", name, "-o", "name", "--ignore-not-found").stdout.strip():
            self._create({"kind": "Namespace", "metadata": {"name": name}})

    def _create(self, item: dict[str, Any]) -> None:
        item["metadata"]["labels"] = MARK
        self.site.kubectl("create", "-f", "-", given=json.dumps({"apiVersion": "v1", **item}))

"""What moto's AWS lacks, in front of it: EKS's add-ons, access entries and group of a cluster; EC2's placement groups;
an ID of its own for each of RDS's servers.

Paths and bodies are those of AWS's API; everything is held in memory and is active at once.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs, unquote

Start = Callable[..., Any]
App = Callable[[dict[str, Any], Start], Iterable[bytes]]
Answer = tuple[int, dict[str, Any]]
CLUSTER = re.compile(r"/clusters(?:/[^/]+)?")
PARTS = re.compile(r"/clusters/(?P<cluster>[^/]+)/(?P<kind>addons|access-entries)(?:/(?P<name>[^/]+))?(?P<rest>/.*)?")
WRITTEN = {"addons": ("addon", "addonName"), "access-entries": ("accessEntry", "principalArn")}
"""Kind -> the key of one in an answer, and of its name in a request."""
ACCOUNT, REGION = "123456789012", "us-east-2"
GROUP = "eks-cluster-sg"
"""Name of the security group that EKS makes for a cluster."""


class Aws:
    """An application of AWS with what moto's lacks."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.kept: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.placement: dict[str, str] = {}

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        """Answer for what is kept here, else hand on."""
        path = environ["REQUEST_URI"].partition("?")[0]  # not yet unquoted: a name may be an ARN with a slash
        if found := PARTS.fullmatch(path):
            status, body = self._answer(
                environ, **{key: unquote(value or "") for key, value in found.groupdict().items()}
            )
            start(f"{status} {'OK' if status == 200 else 'Not Found'}", _head(status))
            return [json.dumps(body).encode()]
        if CLUSTER.fullmatch(path):
            return self._with_group(environ, start)
        if known := BUDGETS.get(environ.get("HTTP_X_AMZ_TARGET", "")):
            start("200 OK", [("Content-Type", "application/x-amz-json-1.1")])
            return [json.dumps(known(_body(environ))).encode()]
        form = _form(environ) if path == "/" else {}
        if form.get("Action", "").rstrip("s").endswith("PlacementGroup"):
            start("200 OK", [("Content-Type", "text/xml")])
            return [self._placement_groups(form).encode()]
        answer = list(self.app(environ, start))
        if form.get("Action") == "CreateDBInstance":
            old, new = _name_server(form["DBInstanceIdentifier"])
            return [part.replace(old.encode(), new.encode()) for part in answer]
        return answer

    def _placement_groups(self, form: dict[str, str]) -> str:
        action = form["Action"]
        if action.startswith("Create"):
            self.placement[form["GroupName"]] = form["Strategy"]
        if action.startswith("Delete"):
            self.placement.pop(form["GroupName"])
        items = "".join(
            f"<item><groupName>{name}</groupName><groupId>pg-{name}</groupId><strategy>{strategy}</strategy>"
            f"<state>available</state></item>"
            for name, strategy in self.placement.items()
        )
        return (
            f"<{action}Response><placementGroupSet>{items}</placementGroupSet><return>true</return></{action}Response>"
        )

    def _answer(self, environ: dict[str, Any], cluster: str, kind: str, name: str, rest: str) -> Answer:
        method, given = environ["REQUEST_METHOD"], _body(environ)
        written, named = WRITTEN[kind]
        if rest:
            return self._policies(method, given, self.kept[cluster, kind, name])
        if method == "POST" and not name:
            name = given[named]
            arn = f"arn:aws:eks:{REGION}:{ACCOUNT}:{kind}/{cluster}/{name}"
            made = {
                **given,
                "clusterName": cluster,
                "status": "ACTIVE",
                "createdAt": 0,
                "modifiedAt": 0,
                "policies": [],
            }
            made |= {f"{written}Arn": arn, "health": {"issues": []}, "addonVersion": given.get("addonVersion", "v1")}
            self.kept[cluster, kind, name] = made
        if (cluster, kind, name) not in self.kept:
            return 404, {"message": f"No {written} {name}"}
        one = self.kept.pop((cluster, kind, name)) if method == "DELETE" else self.kept[cluster, kind, name]
        return 200, {written: one}

    @staticmethod
    def _policies(method: str, given: dict[str, Any], entry: dict[str, Any]) -> Answer:
        if method == "POST":
            entry["policies"].append({**given, "associatedAt": 0, "modifiedAt": 0})
        return 200, {"associatedAccessPolicies": entry["policies"], "associatedAccessPolicy": given}

    def _with_group(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        seen: list[Any] = []
        body = b"".join(self.app(environ, lambda *head, **_: seen.extend(head)))
        answer = json.loads(body) if body else {}
        if "cluster" in answer:
            answer["cluster"]["resourcesVpcConfig"]["clusterSecurityGroupId"] = self._group(answer["cluster"])
            body = json.dumps(answer).encode()
        start(seen[0], [item for item in seen[1] if item[0].lower() != "content-length"])
        return [body]

    def _group(self, cluster: dict[str, Any]) -> str:
        from moto.backends import get_backend

        ec2 = get_backend("ec2")[ACCOUNT][REGION]
        network = ec2.get_subnet(cluster["resourcesVpcConfig"]["subnetIds"][0]).vpc_id
        found = ec2.get_security_group_from_name(GROUP, network)
        return str((found or ec2.create_security_group(GROUP, "of the cluster", network)).id)


def _name_server(identifier: str) -> tuple[str, str]:
    """Give a server of RDS an ID of its own, by which terraform finds it; return the one that all have, and the new."""
    from moto.backends import get_backend

    server = get_backend("rds")[ACCOUNT][REGION].databases[identifier]
    old = server.dbi_resource_id
    digest = hashlib.sha256(identifier.encode()).hexdigest().upper()
    server.dbi_resource_id = f"db-{digest[: len(old) - 3]}"
    return old, server.dbi_resource_id


def _subscribers(given: dict[str, Any]) -> dict[str, Any]:
    from moto.backends import get_backend

    budget = get_backend("budgets")[given["AccountId"]]["aws"].budgets[given["AccountId"]][given["BudgetName"]]
    wanted = given["Notification"]
    (found,) = (
        one.subscribers
        for one in budget.notifications
        if all(one.details[key] == wanted[key] for key in ("NotificationType", "Threshold"))
    )
    return {"Subscribers": found}


def _tags(given: dict[str, Any]) -> dict[str, Any]:
    return {"ResourceTags": []}


BUDGETS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "AWSBudgetServiceGateway.DescribeSubscribersForNotification": _subscribers,
    "AWSBudgetServiceGateway.ListTagsForResource": _tags,
}


def _form(environ: dict[str, Any]) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(_read(environ).decode(errors="replace")).items()}


def _body(environ: dict[str, Any]) -> dict[str, Any]:
    text = _read(environ)
    return dict(json.loads(text)) if text else {}


def _read(environ: dict[str, Any]) -> bytes:
    """Return a request's body and leave it for who reads it next."""
    text: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(text)
    return text


def _head(status: int) -> list[tuple[str, str]]:
    head = [("Content-Type", "application/json")]
    return head if status == 200 else [*head, ("x-amzn-ErrorType", "ResourceNotFoundException")]

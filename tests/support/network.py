"""Kubernetes' network policies as the API describes them: who may open a connection to whom, by the manifests alone.

A connection passes if the policies of both ends let it: egress of those that select the one that opens it, ingress of
those that select the one that listens. An end that no policy of a direction selects is open in that direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

Manifest = Mapping[str, Any]


@dataclass(frozen=True)
class End:
    """A pod, or an address outside of the cluster: one without a namespace."""

    name: str
    address: str
    namespace: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)
    """Names of a pod's ports."""


class Network:
    """Policies and the labels of namespaces."""

    def __init__(self, policies: Iterable[Manifest], namespaces: Mapping[str, Mapping[str, str]]) -> None:
        self._policies = list(policies)
        # Kubernetes labels every namespace with its name
        self._namespaces = {
            name: {"kubernetes.io/metadata.name": name, **labels} for name, labels in namespaces.items()
        }

    def passes(self, source: End, target: End, port: int, protocol: str = "TCP") -> bool:
        """Return whether `source` may connect to a port of `target`."""
        egress = self._side("Egress", "to", source, target, target, port, protocol)
        return egress and self._side("Ingress", "from", target, source, target, port, protocol)

    def _side(self, kind: str, word: str, own: End, other: End, target: End, port: int, protocol: str) -> bool:
        selecting = [policy for policy in self._policies if kind in _types(policy["spec"]) and _selects(policy, own)]
        if not selecting:
            return True
        return any(
            self._peers(policy, rule.get(word), other) and _ports(rule.get("ports"), target, port, protocol)
            for policy in selecting
            for rule in policy["spec"].get(kind.lower()) or []
        )

    def _peers(self, policy: Manifest, peers: list[Manifest] | None, other: End) -> bool:
        """Return whether an end is among a rule's peers; a rule without peers means all."""
        return not peers or any(self._peer(policy["metadata"]["namespace"], peer, other) for peer in peers)

    def _peer(self, namespace: str, peer: Manifest, other: End) -> bool:
        if "ipBlock" in peer:
            block = peer["ipBlock"]
            inside = ip_address(other.address) in ip_network(block["cidr"])
            return inside and not any(ip_address(other.address) in ip_network(cut) for cut in block.get("except", []))
        if other.namespace is None:
            return False
        if "namespaceSelector" in peer:
            if not matches(peer["namespaceSelector"], self._namespaces[other.namespace]):
                return False
        elif other.namespace != namespace:
            return False
        return matches(peer.get("podSelector") or {}, other.labels)


def matches(selector: Manifest, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector selects; an empty one selects everything."""
    if any(labels.get(name) != value for name, value in (selector.get("matchLabels") or {}).items()):
        return False
    for one in selector.get("matchExpressions") or []:
        found, values = labels.get(one["key"]), one.get("values") or []
        holds = {
            "In": found is not None and found in values,
            "NotIn": found is None or found not in values,
            "Exists": found is not None,
            "DoesNotExist": found is None,
        }
        if not holds[one["operator"]]:
            return False
    return True


def _types(spec: Manifest) -> list[str]:
    """Return a policy's directions; Kubernetes adds Egress where it is not said but rules are."""
    found: list[str] | None = spec.get("policyTypes")
    return found if found else ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def _selects(policy: Manifest, end: End) -> bool:
    own = policy["metadata"]["namespace"] == end.namespace
    return own and matches(policy["spec"].get("podSelector") or {}, end.labels)


def _ports(rules: list[Manifest] | None, target: End, port: int, protocol: str) -> bool:
    """Return whether a rule's ports include one; a rule without ports means all."""
    return not rules or any(_port(rule, target, port, protocol) for rule in rules)


def _port(rule: Manifest, target: End, port: int, protocol: str) -> bool:
    if rule.get("protocol", "TCP") != protocol:
        return False
    wanted = rule.get("port")
    if wanted is None:
        return True
    if isinstance(wanted, str):
        return target.ports.get(wanted) == port
    return wanted <= port <= rule.get("endPort", wanted)

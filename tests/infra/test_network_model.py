"""The model of network policies itself, on cases worked out by hand from Kubernetes' description of them."""

from __future__ import annotations

from typing import Any

from tests.support.network import End, Network

WEB = End("web", "10.0.0.1", "shop", {"app": "web"}, {"http": 8080})
DB = End("db", "10.0.0.2", "shop", {"app": "db"})
ALIEN = End("alien", "10.0.0.3", "other", {"app": "web", "team": "x"})
OUT = End("out", "203.0.113.9")
NAMESPACES = {"shop": {}, "other": {"trusted": "yes"}}


def network(*specs: dict[str, Any]) -> Network:
    return Network([{"metadata": {"name": "p", "namespace": "shop"}, "spec": spec} for spec in specs], NAMESPACES)


def test_what_no_policy_selects_is_open() -> None:
    assert network().passes(OUT, DB, 5432)
    web_alone = network({"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"]})
    assert web_alone.passes(WEB, DB, 5432)  # its ingress is closed, not its egress
    assert not web_alone.passes(DB, WEB, 8080)
    assert web_alone.passes(WEB, ALIEN, 80)  # a policy is of its own namespace alone


def test_both_ends_have_to_agree() -> None:
    closed = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    out = {"podSelector": {"matchLabels": {"app": "web"}}, "egress": [{"to": [{"podSelector": {}}]}]}
    into = {"podSelector": {"matchLabels": {"app": "db"}}, "ingress": [{"from": [{"podSelector": {}}]}]}
    assert not network(closed).passes(WEB, DB, 5432)
    assert not network(closed, {**out, "policyTypes": ["Egress"]}).passes(WEB, DB, 5432)
    assert not network(closed, into).passes(WEB, DB, 5432)
    assert network(closed, {**out, "policyTypes": ["Egress"]}, into).passes(WEB, DB, 5432)


def test_one_peer_with_two_selectors_is_and_and_two_peers_are_or() -> None:
    trusted, x = {"matchLabels": {"trusted": "yes"}}, {"matchLabels": {"team": "y"}}
    both = network({"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": trusted, "podSelector": x}]}]})
    either = network({"podSelector": {}, "ingress": [{"from": [{"namespaceSelector": trusted}, {"podSelector": x}]}]})
    assert not both.passes(ALIEN, WEB, 8080)
    assert either.passes(ALIEN, WEB, 8080)
    assert not either.passes(OUT, WEB, 8080)  # a selector selects pods only


def test_a_pod_selector_alone_means_the_policys_own_namespace() -> None:
    own = network({"podSelector": {}, "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}]}]})
    assert own.passes(WEB, DB, 1)
    assert not own.passes(ALIEN, DB, 1)


def test_an_empty_rule_lets_all_in_and_no_rule_lets_none() -> None:
    assert network({"podSelector": {}, "ingress": [{}]}).passes(OUT, DB, 1)
    assert not network({"podSelector": {}, "ingress": []}).passes(OUT, DB, 1)


def test_blocks_have_exceptions() -> None:
    block = {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["203.0.113.0/24"]}}
    policy = network({"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"to": [block]}]})
    assert not policy.passes(WEB, OUT, 443)
    assert policy.passes(WEB, End("else", "198.51.100.1"), 443)


def test_ports_have_names_ranges_and_protocols() -> None:
    def with_port(port: dict[str, Any]) -> Network:
        return network({"podSelector": {}, "ingress": [{"ports": [port]}]})

    assert with_port({"port": "http"}).passes(OUT, WEB, 8080)
    assert not with_port({"port": "http"}).passes(OUT, WEB, 8081)
    assert with_port({"port": 8000, "endPort": 8100}).passes(OUT, WEB, 8100)
    assert not with_port({"port": 8000, "endPort": 8100}).passes(OUT, WEB, 8101)
    assert not with_port({"port": 53, "protocol": "UDP"}).passes(OUT, WEB, 53)
    assert with_port({"protocol": "UDP"}).passes(OUT, WEB, 53, "UDP")


def test_expressions_about_absent_labels() -> None:
    def of(operator: str, *values: str) -> Network:
        wish = {"key": "team", "operator": operator, **({"values": list(values)} if values else {})}
        peer = {"namespaceSelector": {}, "podSelector": {"matchExpressions": [wish]}}
        return network({"podSelector": {}, "ingress": [{"from": [peer]}]})

    assert [of("NotIn", "x").passes(end, DB, 1) for end in (WEB, ALIEN)] == [True, False]
    assert [of("In", "x").passes(end, DB, 1) for end in (WEB, ALIEN)] == [False, True]
    assert [of("Exists").passes(end, DB, 1) for end in (WEB, ALIEN)] == [False, True]
    assert [of("DoesNotExist").passes(end, DB, 1) for end in (WEB, ALIEN)] == [True, False]

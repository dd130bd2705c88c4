"""The cloud: what terraform says of itself, and what it makes on a server that speaks the AWS API."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from pipelines.recipe.pools import Pool, load_pools
from tests.infra.conftest import INFRA, Terraform
from tests.support.aws_server import Aws
from tests.support.s3_rights import account_rights
from tests.support.s3_server import local_s3

pytestmark = pytest.mark.infra
LABEL = "posttrain.dev/pool"
RUNS = "".join(path.read_text() for path in (INFRA / "terraform" / "aws" / "tests").glob("*.tftest.hcl"))
BUCKET = "posttrain-infra-test"
REGION = "us-east-2"  # variables.tf's own; moto has AWS's lists of what each zone offers
REQUIRED = ("-var", f"bucket={BUCKET}", "-var", 'budget_emails=["team@example.com"]')
MACHINES = {
    "m7i.4xlarge": (16, 64, 0),
    "g6.2xlarge": (8, 32, 1),
    "g6.4xlarge": (16, 64, 1),
    "p5.4xlarge": (16, 256, 1),
    "p5.48xlarge": (192, 2048, 8),
}
"""AWS's instance types that variables.tf names: vCPUs, GiB of memory, GPUs."""


def test_it_is_formatted_valid_and_passes_its_own_tests(terraform: Terraform) -> None:
    terraform("fmt", "-check", "-recursive", "-diff")
    terraform("validate", "-no-color")
    printed = terraform("test", "-no-color").stdout
    assert f"{len(re.findall('^run ', RUNS, re.MULTILINE))} passed, 0 failed" in printed


def test_every_pool_fits_the_machines_that_terraform_gives_it(terraform: Terraform) -> None:
    printed = terraform("console", *REQUIRED, given="jsonencode(var.instance_types)").stdout
    types: dict[str, list[str]] = json.loads(json.loads(printed))
    wanted = _by_label()
    assert types.keys() == wanted.keys()
    for label, pools in wanted.items():
        for cpus, memory_gib, gpus in (MACHINES[name] for name in types[label]):
            for pool in pools:  # the node keeps a core and some memory for itself
                assert (pool.cpus < cpus, pool.memory_gib < 0.95 * memory_gib, pool.gpus) == (True, True, gpus), label


@pytest.fixture(scope="module")
def aws(terraform: Terraform) -> Iterator[Any]:
    """Apply everything to a local server, and return a maker of boto3 clients of it."""
    import boto3

    with pytest.MonkeyPatch.context() as patch, local_s3(around=Aws) as endpoint:
        patch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")  # read by the server when its IAM is first asked
        admins = 'admins=["arn:aws:iam::123456789012:role/platform"]'
        variables = [*REQUIRED, "-var", f"endpoint={endpoint}", "-var", admins]
        terraform("apply", "-auto-approve", "-input=false", "-no-color", *variables)
        session = boto3.Session("testing", "testing", region_name=REGION)
        yield lambda service: session.client(service, endpoint_url=endpoint)


@pytest.mark.slow
def test_apply_makes_the_node_groups_of_the_pools_file(aws: Any) -> None:
    wanted = _by_label()
    eks = aws("eks")
    names = eks.list_nodegroups(clusterName="posttrain")["nodegroups"]
    assert set(names) == {*wanted, "system"}
    for label, pools in wanted.items():
        group = eks.describe_nodegroup(clusterName="posttrain", nodegroupName=label)["nodegroup"]
        assert group["labels"] == {LABEL: label}
        assert group["capacityType"] == ("SPOT" if pools[0].spot else "ON_DEMAND")
        most = max(pool.nodes for pool in pools)
        assert group["scalingConfig"] == {"minSize": 0, "desiredSize": 0, "maxSize": most}
        taints = {(taint["key"], taint["effect"]) for taint in group.get("taints", [])}
        assert taints == {(one.key, "NO_SCHEDULE") for pool in pools for one in pool.tolerations}
        assert all(one.effect == "NoSchedule" for pool in pools for one in pool.tolerations)
        assert group["amiType"].endswith("_NVIDIA") == any(pool.gpus for pool in pools)
        assert set(group["instanceTypes"]) <= MACHINES.keys()


@pytest.mark.slow
def test_apply_makes_a_closed_bucket_and_narrow_roles(aws: Any) -> None:
    s3 = aws("s3")
    assert s3.get_bucket_versioning(Bucket=BUCKET)["Status"] == "Enabled"
    assert all(s3.get_public_access_block(Bucket=BUCKET)["PublicAccessBlockConfiguration"].values())
    rule = s3.get_bucket_encryption(Bucket=BUCKET)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
    rules = {rule["ID"]: rule for rule in s3.get_bucket_lifecycle_configuration(Bucket=BUCKET)["Rules"]}
    assert rules["partial-checkpoints"]["Filter"]["Prefix"] == "store/partial/"
    assert rules["partial-checkpoints"]["Expiration"]["Days"] == 30
    deny = json.loads(s3.get_bucket_policy(Bucket=BUCKET)["Policy"])["Statement"][0]
    assert (deny["Effect"], deny["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})

    stage = aws("iam").get_role_policy(RoleName="posttrain-stage", PolicyName="bucket")["PolicyDocument"]
    assert _resources(stage, "s3:PutObject") == {f"arn:aws:s3:::{BUCKET}/store/*"}
    for account, rights in account_rights().items():
        policy = aws("iam").get_role_policy(RoleName=f"posttrain-{account}", PolicyName="bucket")["PolicyDocument"]
        for action, patterns in (("s3:PutObject", rights.writes), ("s3:DeleteObject", rights.deletes)):
            assert _resources(policy, action) == {f"arn:aws:s3:::{BUCKET}/{pattern}" for pattern in patterns}
    assert not any("*" in action for one in stage["Statement"] for action in _listed(one["Action"]))
    trust = aws("iam").get_role(RoleName="posttrain-stage")["Role"]["AssumeRolePolicyDocument"]["Statement"][0]
    subjects = [value for key, value in trust["Condition"]["StringEquals"].items() if key.endswith(":sub")]
    assert subjects == ["system:serviceaccount:posttrain:stage"]


@pytest.mark.slow
def test_the_kubernetes_api_and_all_nodes_are_private(aws: Any) -> None:
    eks, ec2 = aws("eks"), aws("ec2")
    network = eks.describe_cluster(name="posttrain")["cluster"]["resourcesVpcConfig"]
    assert (network["endpointPrivateAccess"], network["endpointPublicAccess"]) == (True, False)
    internet = {
        association["SubnetId"]
        for table in ec2.describe_route_tables()["RouteTables"]
        if any(route.get("GatewayId", "").startswith("igw-") for route in table["Routes"])
        for association in table["Associations"]
        if "SubnetId" in association
    }
    assert len(internet) == 2
    for name in eks.list_nodegroups(clusterName="posttrain")["nodegroups"]:
        subnets = eks.describe_nodegroup(clusterName="posttrain", nodegroupName=name)["nodegroup"]["subnets"]
        assert subnets
        assert not internet & set(subnets)


@pytest.mark.slow
def test_policies_bind_people_are_named_and_costs_are_told(aws: Any) -> None:
    eks = aws("eks")
    settings = eks.describe_addon(clusterName="posttrain", addonName="vpc-cni")["addon"]["configurationValues"]
    assert json.loads(settings)["enableNetworkPolicy"] == "true"
    driver = eks.describe_addon(clusterName="posttrain", addonName="aws-ebs-csi-driver")["addon"]
    assert driver["serviceAccountRoleArn"].endswith(":role/posttrain-volumes")
    platform = "arn:aws:iam::123456789012:role/platform"
    entries = eks.list_associated_access_policies(clusterName="posttrain", principalArn=platform)
    (policy,) = entries["associatedAccessPolicies"]
    assert policy["policyArn"].endswith("/AmazonEKSClusterAdminPolicy")
    told = aws("budgets").describe_notifications_for_budget(AccountId="123456789012", BudgetName="posttrain")
    assert {(one["NotificationType"], one["Threshold"]) for one in told["Notifications"]} == {
        ("ACTUAL", 50.0), ("ACTUAL", 80.0), ("ACTUAL", 100.0), ("FORECASTED", 100.0)
    }  # fmt: skip


@pytest.mark.slow
def test_databases_and_images_are_there_and_closed(aws: Any) -> None:
    servers = {one["DBInstanceIdentifier"]: one for one in aws("rds").describe_db_instances()["DBInstances"]}
    assert servers.keys() == {"posttrain-mlflow", "posttrain-airflow"}
    for server in servers.values():
        assert (server["PubliclyAccessible"], server["StorageEncrypted"], server["DeletionProtection"]) == (
            False,
            True,
            True,
        )
        secret = aws("secretsmanager").get_secret_value(SecretId=server["MasterUserSecret"]["SecretArn"])
        assert json.loads(secret["SecretString"]).keys() == {"username", "password"}
    (group,) = aws("ec2").describe_security_groups(Filters=[{"Name": "group-name", "Values": ["posttrain-database"]}])[
        "SecurityGroups"
    ]
    (allowed,) = group["IpPermissions"]
    assert (allowed["FromPort"], allowed["IpRanges"]) == (5432, [])
    cluster = aws("eks").describe_cluster(name="posttrain")["cluster"]["resourcesVpcConfig"]
    assert [one["GroupId"] for one in allowed["UserIdGroupPairs"]] == [cluster["clusterSecurityGroupId"]]
    images = {one["repositoryName"]: one for one in aws("ecr").describe_repositories()["repositories"]}
    assert images.keys() == {"posttrain-cpu", "posttrain-gpu", "posttrain-airflow"}
    assert {one["imageTagMutability"] for one in images.values()} == {"IMMUTABLE"}


@pytest.mark.slow
def test_nodes_of_one_job_share_a_place_and_a_fabric(aws: Any) -> None:
    group = aws("eks").describe_nodegroup(clusterName="posttrain", nodegroupName="h100x8")["nodegroup"]
    assert len(group["subnets"]) == 1
    versions = aws("ec2").describe_launch_template_versions(LaunchTemplateId=group["launchTemplate"]["id"])
    data = versions["LaunchTemplateVersions"][-1]["LaunchTemplateData"]
    assert data["Placement"]["GroupName"] == "posttrain-h100x8"
    cards = data["NetworkInterfaces"]
    assert [one["NetworkCardIndex"] for one in cards] == list(range(32))
    assert [one["InterfaceType"] for one in cards] == ["efa"] + 31 * ["efa-only"]
    assert "strategy: RAID0" in base64.b64decode(data["UserData"]).decode()


def _by_label() -> dict[str, list[Pool]]:
    """Return the pools of the pools file by the label of the nodes that they select."""
    found: dict[str, list[Pool]] = {}
    for pool in load_pools().values():
        if pool.node_selector:
            found.setdefault(pool.node_selector[LABEL], []).append(pool)
    return found


def _resources(policy: dict[str, Any], action: str) -> set[str]:
    """Return the resources on which a policy allows an action."""
    allowed = [one for one in policy["Statement"] if action in _listed(one["Action"]) and one["Effect"] == "Allow"]
    return {resource for one in allowed for resource in _listed(one["Resource"])}


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value

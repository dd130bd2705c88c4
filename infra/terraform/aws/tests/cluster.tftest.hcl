# No account, no network: the provider is a mock. What is checked is that what is delivered works: policies bind, versions are
# supported, nodes are near each other and have their disks, and nothing is lost or spent unnoticed.
mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  bucket        = "posttrain-test"
  budget_emails = ["team@example.com"]
}

run "network_policies_bind_before_a_node_joins" {
  assert {
    condition     = jsondecode(aws_eks_addon.before_nodes["vpc-cni"].configuration_values).enableNetworkPolicy == "true"
    error_message = "the CNI enforces network policies; its schema wants a string"
  }
  assert {
    condition     = !aws_eks_cluster.this.bootstrap_self_managed_addons
    error_message = "EKS installs no CNI of its own beside the add-on"
  }
}

run "only_named_people_get_in" {
  command = plan
  variables {
    admins  = ["arn:aws:iam::123456789012:role/platform"]
    viewers = ["arn:aws:iam::123456789012:role/research", "arn:aws:iam::123456789012:role/platform"]
  }
  assert {
    condition = { for arn, one in aws_eks_access_policy_association.person : arn => one.policy_arn } == {
      "arn:aws:iam::123456789012:role/platform" = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
      "arn:aws:iam::123456789012:role/research" = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
    }
    error_message = "who administers need not look; who looks cannot change"
  }
  assert {
    condition     = one(aws_eks_cluster.this.access_config).authentication_mode == "API"
    error_message = "no ConfigMap grants access beside the entries"
  }
}

run "nodes_of_one_job_are_connected" {
  assert {
    condition     = local.fabric == { h100x8 = 32 }
    error_message = "only the pool of jobs on several nodes has EFA"
  }
  assert {
    condition = [for one in aws_launch_template.node["h100x8"].network_interfaces : [one.network_card_index, one.device_index, one.interface_type]] == [
      for card in range(32) : [card, card == 0 ? 0 : 1, card == 0 ? "efa" : "efa-only"]
    ]
    error_message = "one interface for each card; the first also has the address"
  }
  assert {
    condition     = alltrue([for one in aws_launch_template.node["h100x8"].network_interfaces : contains(one.security_groups, aws_security_group.fabric.id) && length(one.security_groups) == 2])
    error_message = "each interface is in the group that lets EFA pass, and in the cluster's"
  }
  assert {
    condition     = one(aws_launch_template.node["h100x8"].placement).group_name == aws_placement_group.fabric["h100x8"].name && length(aws_eks_node_group.pool["h100x8"].subnet_ids) == 1
    error_message = "they are in one placement group, which is in one zone"
  }
  assert {
    condition     = length(aws_launch_template.node["pool"].network_interfaces) == 0 && length(aws_eks_node_group.pool["l4x1"].subnet_ids) == 2
    error_message = "other nodes are plain ones in any zone"
  }
  assert {
    condition     = aws_eks_node_group.pool["h100x8"].tags["k8s.io/cluster-autoscaler/node-template/resources/vpc.amazonaws.com/efa"] == "32"
    error_message = "the autoscaler knows of EFA while the group is empty"
  }
}

run "local_disks_are_the_scratch" {
  assert {
    condition     = alltrue([for label, one in aws_launch_template.node : strcontains(base64decode(one.user_data), "strategy: RAID0") if label != "system"])
    error_message = "local NVMe disks of a pool's node become its scratch; where there is none nothing changes"
  }
  assert {
    condition     = local.scratch_gib["h100x8"] == 25749 && local.scratch_gib["l4x1-spot"] == 377 && local.scratch_gib["cpu-large"] == 270
    error_message = "nine tenths of the disks: 28610 GiB, 419 GiB of the smaller type, and the root disk of 300 GiB"
  }
}

run "reserved_capacity_is_used_where_it_is" {
  variables {
    capacity_blocks = { h100x8 = { id = "cr-0123456789abcdef0", zone = "b" }, h100x1 = { id = "cr-0fedcba9876543210", zone = "a", block = false } }
  }
  assert {
    condition     = aws_eks_node_group.pool["h100x8"].capacity_type == "CAPACITY_BLOCK" && one(aws_launch_template.node["h100x8"].instance_market_options).market_type == "capacity-block" && length(aws_launch_template.node["h100x8"].placement) == 0
    error_message = "a Capacity Block is bought by its own market, and is close together by itself"
  }
  assert {
    condition     = one(aws_eks_node_group.pool["h100x8"].subnet_ids) == aws_subnet.private["b"].id
    error_message = "nodes are in the reservation's zone"
  }
  assert {
    condition     = aws_eks_node_group.pool["h100x1"].capacity_type == "ON_DEMAND" && length(aws_launch_template.node["h100x1"].instance_market_options) == 0 && one(one(aws_launch_template.node["h100x1"].capacity_reservation_specification).capacity_reservation_target).capacity_reservation_id == "cr-0fedcba9876543210"
    error_message = "another reservation is on demand"
  }
}

run "a_region_without_the_instances_is_refused" {
  command = plan
  override_data {
    target = data.aws_ec2_instance_type_offerings.zone
    values = { instance_types = ["m7i.4xlarge", "g6.2xlarge", "g6.4xlarge"] }
  }
  expect_failures = [aws_eks_node_group.pool]
}

run "databases_are_closed_and_their_passwords_nowhere" {
  assert {
    condition     = toset(keys(aws_db_instance.this)) == toset(["mlflow", "airflow"]) && alltrue([for one in aws_db_instance.this : one.manage_master_user_password && one.password == null && one.storage_encrypted && !one.publicly_accessible])
    error_message = "MLflow and Airflow have a server each, encrypted, inside the VPC, whose password is in no state"
  }
  assert {
    condition     = aws_vpc_security_group_ingress_rule.database.from_port == 5432 && aws_vpc_security_group_ingress_rule.database.cidr_ipv4 == null
    error_message = "only the cluster's nodes reach PostgreSQL"
  }
  assert {
    condition     = alltrue([for one in aws_secretsmanager_secret_rotation.database : one.rotation_rules[0].automatically_after_days == 1000])
    error_message = "a password does not change under running pods each week"
  }
}

run "data_outlives_a_mistake" {
  command = plan
  assert {
    condition     = !aws_s3_bucket.store.force_destroy && alltrue([for one in aws_db_instance.this : one.deletion_protection && !one.skip_final_snapshot && one.backup_retention_period == 14]) && alltrue([for one in aws_ecr_repository.image : !one.force_delete && one.image_tag_mutability == "IMMUTABLE"])
    error_message = "bucket, databases and images are not deleted unless keep_data is false"
  }
}

run "data_goes_when_asked" {
  command = plan
  variables {
    keep_data = false
  }
  assert {
    condition     = aws_s3_bucket.store.force_destroy && alltrue([for one in aws_db_instance.this : !one.deletion_protection && one.skip_final_snapshot]) && alltrue([for one in aws_ecr_repository.image : one.force_delete])
    error_message = "keep_data = false lets all of it go"
  }
}

run "somebody_hears_of_the_costs" {
  command = plan
  assert {
    condition     = toset([for one in aws_budgets_budget.month.notification : "${one.notification_type} ${one.threshold}"]) == toset(["ACTUAL 50", "ACTUAL 80", "ACTUAL 100", "FORECASTED 100"]) && alltrue([for one in aws_budgets_budget.month.notification : one.subscriber_email_addresses == toset(["team@example.com"])])
    error_message = "at half, most and all of the budget, and before it is exceeded"
  }
}

run "nobody_to_tell_is_refused" {
  command = plan
  variables {
    budget_emails = []
  }
  expect_failures = [var.budget_emails]
}

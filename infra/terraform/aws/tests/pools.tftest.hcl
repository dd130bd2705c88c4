# No account, no network: the provider is a mock. What is checked is that the node groups are those of infra/pools.yaml.
mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  bucket        = "posttrain-test"
  budget_emails = ["team@example.com"]
}

run "node_groups_are_those_of_the_pools_file" {
  assert {
    condition     = toset(keys(aws_eks_node_group.pool)) == toset([for pool in local.selecting : pool.node_selector["posttrain.dev/pool"]])
    error_message = "every pool label has one node group, and no other exists"
  }
  assert {
    condition     = alltrue([for group in aws_eks_node_group.pool : one(group.scaling_config).min_size == 0 && one(group.scaling_config).desired_size == 0])
    error_message = "pools cost nothing while no job runs"
  }
  assert {
    condition     = alltrue([for label, group in aws_eks_node_group.pool : group.labels["posttrain.dev/pool"] == label])
    error_message = "nodes carry the label that jobs select"
  }
  assert {
    condition     = alltrue([for label, group in aws_eks_node_group.pool : toset([for taint in group.taint : taint.key]) == toset(local.node_pools[label].taint_keys)])
    error_message = "a group has a taint for each toleration of its pool: others stay off its nodes"
  }
  assert {
    condition     = alltrue([for label, group in aws_eks_node_group.pool : (group.capacity_type == "SPOT") == local.node_pools[label].spot])
    error_message = "spot pools are on spot capacity, the others are not"
  }
  assert {
    condition     = one(aws_eks_node_group.pool["h100x8"].scaling_config).max_size == 2
    error_message = "a pool's nodes suffice for its largest job: h100x16 takes two nodes of h100x8"
  }
  assert {
    condition     = aws_eks_node_group.pool["l4x1"].ami_type == "AL2023_x86_64_NVIDIA" && aws_eks_node_group.pool["cpu-large"].ami_type == "AL2023_x86_64_STANDARD"
    error_message = "only GPU nodes have the driver image"
  }
}

run "nothing_is_public" {
  assert {
    condition     = aws_s3_bucket_public_access_block.store.block_public_acls && aws_s3_bucket_public_access_block.store.block_public_policy && aws_s3_bucket_public_access_block.store.ignore_public_acls && aws_s3_bucket_public_access_block.store.restrict_public_buckets
    error_message = "the bucket is closed to the public"
  }
  assert {
    condition     = !one(aws_eks_cluster.this.vpc_config).endpoint_public_access
    error_message = "the Kubernetes API is not reachable from outside unless ranges are named"
  }
  assert {
    condition     = alltrue([for template in aws_launch_template.node : one(template.metadata_options).http_tokens == "required" && one(template.metadata_options).http_put_response_hop_limit == 1])
    error_message = "pods cannot take the node's credentials"
  }
}

run "the_kubernetes_api_is_not_for_everybody" {
  command = plan
  variables {
    operator_cidrs = ["0.0.0.0/0"]
  }
  expect_failures = [var.operator_cidrs]
}

run "a_pool_without_instance_types_is_named" {
  command = plan
  variables {
    instance_types = { cpu-large = ["m7i.4xlarge"] }
  }
  expect_failures = [aws_eks_node_group.pool]
}

run "more_nodes_where_asked" {
  variables {
    max_nodes = { h100x8 = 8 }
  }
  assert {
    condition     = one(aws_eks_node_group.pool["h100x8"].scaling_config).max_size == 8 && output.node_pools["h100x8"].max_nodes == 8
    error_message = "max_nodes raises a pool's limit"
  }
}

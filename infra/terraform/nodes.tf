locals {
  # Kubernetes spells an effect NoSchedule, the EKS API NO_SCHEDULE.
  taint_values = { "nvidia.com/gpu" = "present", "posttrain.dev/spot" = "true" }
}

resource "aws_launch_template" "node" {
  for_each    = toset(["system", "pool"])
  name_prefix = "${var.name}-${each.key}-"

  # A pod must not borrow the node's role: one hop ends before it reaches a container.
  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  block_device_mappings {
    device_name = "/dev/xvda"
    ebs {
      volume_size = each.key == "system" ? 80 : var.disk_gib
      volume_type = "gp3"
      encrypted   = true
    }
  }
}

resource "aws_eks_node_group" "system" {
  cluster_name    = aws_eks_cluster.this.name
  node_group_name = "system"
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = [for subnet in aws_subnet.private : subnet.id]
  instance_types  = [var.system_instance_type]
  ami_type        = "AL2023_x86_64_STANDARD"
  depends_on      = [aws_iam_role_policy_attachment.node]

  launch_template {
    id      = aws_launch_template.node["system"].id
    version = aws_launch_template.node["system"].latest_version
  }

  scaling_config {
    min_size     = 1
    desired_size = 2
    max_size     = 6
  }

  lifecycle {
    ignore_changes = [scaling_config[0].desired_size, remote_access]
  }
}

# Nodes that cost money exist only while a job runs: the autoscaler raises a group from zero when a pod selects it.
resource "aws_eks_node_group" "pool" {
  for_each        = local.node_pools
  cluster_name    = aws_eks_cluster.this.name
  node_group_name = each.key
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = [for subnet in aws_subnet.private : subnet.id]
  instance_types  = lookup(var.instance_types, each.key, [])
  ami_type        = each.value.gpus > 0 ? "AL2023_x86_64_NVIDIA" : "AL2023_x86_64_STANDARD"
  capacity_type   = each.value.spot ? "SPOT" : "ON_DEMAND"
  labels          = { (local.label) = each.key }
  depends_on      = [aws_iam_role_policy_attachment.node]

  launch_template {
    id      = aws_launch_template.node["pool"].id
    version = aws_launch_template.node["pool"].latest_version
  }

  scaling_config {
    min_size     = 0
    desired_size = 0
    max_size     = lookup(var.max_nodes, each.key, each.value.largest)
  }

  dynamic "taint" {
    for_each = each.value.taint_keys
    content {
      key    = taint.value
      value  = local.taint_values[taint.value]
      effect = "NO_SCHEDULE"
    }
  }

  lifecycle {
    ignore_changes = [scaling_config[0].desired_size, remote_access]
    precondition {
      condition     = length(lookup(var.instance_types, each.key, [])) > 0
      error_message = "instance_types names no instance type for the pool label '${each.key}' of infra/pools.yaml."
    }
  }
}

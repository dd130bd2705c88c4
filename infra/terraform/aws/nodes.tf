locals {
  # Kubernetes spells an effect NoSchedule, the EKS API NO_SCHEDULE.
  taint_values = { "nvidia.com/gpu" = "present", "posttrain.dev/spot" = "true" }

  # Zones that offer all instance types of a pool; nodes of one job, and of one reservation, are in one zone.
  offering = {
    for label in keys(local.node_pools) : label => [
      for zone in var.zones : zone
      if length(setsubtract(lookup(var.instance_types, label, []), data.aws_ec2_instance_type_offerings.zone[zone].instance_types)) == 0
    ]
  }
  pool_zones = {
    for label, zones in local.offering : label => (
      contains(keys(var.capacity_blocks), label) ? [var.capacity_blocks[label].zone] :
      contains(keys(local.fabric), label) ? slice(zones, 0, min(1, length(zones))) : zones
    )
  }
  # What a node keeps for pods: its NVMe disks, or most of its root disk. The kubelet keeps a tenth free.
  scratch_gib = {
    for label in keys(local.node_pools) : label => floor(0.9 * min([
      for type in lookup(var.instance_types, label, [""]) : lookup(var.machines, type, local.plain).nvme_gib > 0 ? var.machines[type].nvme_gib : var.disk_gib
    ]...))
  }
  # Launch template -> EFA interfaces.
  templates = merge({ system = 0, pool = 0 }, { for label in keys(var.capacity_blocks) : label => 0 }, local.fabric)
}

data "aws_ec2_instance_type_offerings" "zone" {
  for_each      = toset(var.zones)
  location_type = "availability-zone"

  filter {
    name   = "location"
    values = ["${var.region}${each.key}"]
  }
  filter {
    name   = "instance-type"
    values = distinct(flatten(values(var.instance_types)))
  }
}

resource "aws_launch_template" "node" {
  for_each    = local.templates
  name_prefix = "${var.name}-${each.key}-"
  user_data   = each.key == "system" ? null : base64encode(file("${path.module}/scratch.mime"))

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

  # The first card has the node's address; the others carry EFA alone, so that they take no address of the subnet.
  dynamic "network_interfaces" {
    for_each = range(each.value)
    content {
      network_card_index    = network_interfaces.value
      device_index          = network_interfaces.value == 0 ? 0 : 1
      interface_type        = network_interfaces.value == 0 ? "efa" : "efa-only"
      delete_on_termination = true
      security_groups       = [aws_eks_cluster.this.vpc_config[0].cluster_security_group_id, aws_security_group.fabric.id]
    }
  }

  dynamic "placement" {
    for_each = contains(keys(aws_placement_group.fabric), each.key) ? [aws_placement_group.fabric[each.key].name] : []
    content {
      group_name = placement.value
    }
  }

  dynamic "instance_market_options" {
    for_each = try(var.capacity_blocks[each.key].block, false) ? [true] : []
    content {
      market_type = "capacity-block"
    }
  }

  dynamic "capacity_reservation_specification" {
    for_each = contains(keys(var.capacity_blocks), each.key) ? [var.capacity_blocks[each.key].id] : []
    content {
      capacity_reservation_target {
        capacity_reservation_id = capacity_reservation_specification.value
      }
    }
  }

  # Default tags do not reach what a node group launches: without these, nobody can tell what a node cost.
  dynamic "tag_specifications" {
    for_each = toset(["instance", "volume"])
    content {
      resource_type = tag_specifications.value
      tags          = { Name = "${var.name}-${each.key}", project = var.name }
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
  depends_on      = [aws_iam_role_policy_attachment.node, aws_eks_addon.before_nodes]

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
  subnet_ids      = [for zone in local.pool_zones[each.key] : aws_subnet.private[zone].id]
  instance_types  = lookup(var.instance_types, each.key, [])
  ami_type        = each.value.gpus > 0 ? "AL2023_x86_64_NVIDIA" : "AL2023_x86_64_STANDARD"
  capacity_type   = try(var.capacity_blocks[each.key].block, false) ? "CAPACITY_BLOCK" : each.value.spot ? "SPOT" : "ON_DEMAND"
  labels          = { (local.label) = each.key }
  depends_on      = [aws_iam_role_policy_attachment.node, aws_eks_addon.before_nodes]

  # From these the autoscaler knows what a node of an empty group would have; all else it knows from the instance type.
  tags = merge(
    { "k8s.io/cluster-autoscaler/node-template/resources/ephemeral-storage" = "${local.scratch_gib[each.key]}Gi" },
    contains(keys(local.fabric), each.key) ? { "k8s.io/cluster-autoscaler/node-template/resources/vpc.amazonaws.com/efa" = tostring(local.fabric[each.key]) } : {},
  )

  launch_template {
    id      = aws_launch_template.node[contains(keys(local.templates), each.key) ? each.key : "pool"].id
    version = aws_launch_template.node[contains(keys(local.templates), each.key) ? each.key : "pool"].latest_version
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
    precondition {
      condition     = length(local.offering[each.key]) > 0
      error_message = "No zone of ${var.region} among ${join(", ", var.zones)} offers ${join(" and ", lookup(var.instance_types, each.key, []))}, for the pool label '${each.key}': name other zones, another region or other instance_types."
    }
  }
}

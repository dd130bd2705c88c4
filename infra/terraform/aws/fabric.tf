# What connects the nodes of one job: EFA interfaces, and a placement group in one zone.
locals {
  plain = { nvme_gib = 0, efa_interfaces = 0 } # a machine of which var.machines says nothing

  # Pool label -> EFA interfaces, where jobs take several nodes and all of the pool's machines have them.
  cards  = { for label, types in var.instance_types : label => [for type in types : lookup(var.machines, type, local.plain).efa_interfaces] }
  fabric = { for label, pool in local.node_pools : label => min(local.cards[label]...) if pool.largest > 1 && alltrue([for count in lookup(local.cards, label, [0]) : count > 0]) }
}

# A Capacity Block is close together by itself, and AWS refuses a placement group of ours for it.
resource "aws_placement_group" "fabric" {
  for_each = { for label, count in local.fabric : label => count if !contains(keys(var.capacity_blocks), label) }
  name     = "${var.name}-${each.key}"
  strategy = "cluster"
}

# EFA passes only what its group allows to and from itself; a rule for all addresses does not count.
resource "aws_security_group" "fabric" {
  name        = "${var.name}-fabric"
  description = "EFA between the nodes of one job"
  vpc_id      = aws_vpc.this.id
}

resource "aws_vpc_security_group_ingress_rule" "fabric" {
  security_group_id            = aws_security_group.fabric.id
  referenced_security_group_id = aws_security_group.fabric.id
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_egress_rule" "fabric" {
  security_group_id            = aws_security_group.fabric.id
  referenced_security_group_id = aws_security_group.fabric.id
  ip_protocol                  = "-1"
}

data "aws_iam_policy_document" "assume" {
  for_each = toset(["eks.amazonaws.com", "ec2.amazonaws.com"])
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = [each.key]
    }
  }
}

resource "aws_iam_role" "cluster" {
  name               = "${var.name}-cluster"
  assume_role_policy = data.aws_iam_policy_document.assume["eks.amazonaws.com"].json
}

resource "aws_iam_role_policy_attachment" "cluster" {
  role       = aws_iam_role.cluster.name
  policy_arn = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"
}

resource "aws_eks_cluster" "this" {
  name                      = var.name
  version                   = var.kubernetes_version
  role_arn                  = aws_iam_role.cluster.arn
  enabled_cluster_log_types = ["api", "audit", "authenticator"]
  depends_on                = [aws_iam_role_policy_attachment.cluster]

  # addons.tf has them, with settings
  bootstrap_self_managed_addons = false

  access_config {
    authentication_mode                         = "API"
    bootstrap_cluster_creator_admin_permissions = true
  }

  # A version that is out of standard support costs six times as much an hour: AWS upgrades it instead.
  upgrade_policy {
    support_type = "STANDARD"
  }

  vpc_config {
    subnet_ids              = [for subnet in aws_subnet.private : subnet.id]
    endpoint_private_access = true
    endpoint_public_access  = length(var.operator_cidrs) > 0
    public_access_cidrs     = length(var.operator_cidrs) > 0 ? var.operator_cidrs : null
  }

  encryption_config {
    resources = ["secrets"]
    provider {
      key_arn = aws_kms_key.store.arn
    }
  }
}

locals {
  access = merge(
    { for arn in var.admins : arn => "AmazonEKSClusterAdminPolicy" },
    { for arn in setsubtract(var.viewers, var.admins) : arn => "AmazonEKSViewPolicy" },
  )
}

resource "aws_eks_access_entry" "person" {
  for_each      = local.access
  cluster_name  = aws_eks_cluster.this.name
  principal_arn = each.key
}

resource "aws_eks_access_policy_association" "person" {
  for_each      = local.access
  cluster_name  = aws_eks_cluster.this.name
  principal_arn = aws_eks_access_entry.person[each.key].principal_arn
  policy_arn    = "arn:aws:eks::aws:cluster-access-policy/${each.value}"

  access_scope {
    type = "cluster"
  }
}

resource "aws_iam_role" "node" {
  name               = "${var.name}-node"
  assume_role_policy = data.aws_iam_policy_document.assume["ec2.amazonaws.com"].json
}

# Nodes may join, give pods addresses and pull images; artifacts are the service accounts' business (identity.tf).
resource "aws_iam_role_policy_attachment" "node" {
  for_each   = toset(["AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly"])
  role       = aws_iam_role.node.name
  policy_arn = "arn:aws:iam::aws:policy/${each.key}"
}

# What EKS itself installs; versions are AWS's defaults for the cluster's version. Charts of others: infra/kubernetes, infra/airflow.
locals {
  # Network policies bind only where the CNI's agent is told to enforce them.
  addons_before_nodes = {
    vpc-cni    = { enableNetworkPolicy = "true", env = { ENABLE_PREFIX_DELEGATION = "true" } }
    kube-proxy = {}
  }
  addons_on_nodes = {
    coredns            = {}
    aws-ebs-csi-driver = {}
  }
}

resource "aws_eks_addon" "before_nodes" {
  for_each                    = local.addons_before_nodes
  cluster_name                = aws_eks_cluster.this.name
  addon_name                  = each.key
  configuration_values        = length(each.value) > 0 ? jsonencode(each.value) : null
  resolve_conflicts_on_create = "OVERWRITE"
  resolve_conflicts_on_update = "OVERWRITE"
}

resource "aws_eks_addon" "on_nodes" {
  for_each                    = local.addons_on_nodes
  cluster_name                = aws_eks_cluster.this.name
  addon_name                  = each.key
  service_account_role_arn    = each.key == "aws-ebs-csi-driver" ? aws_iam_role.volumes.arn : null
  resolve_conflicts_on_create = "OVERWRITE"
  resolve_conflicts_on_update = "OVERWRITE"
  depends_on                  = [aws_eks_node_group.system]
}

# Volumes are for Kubeflow's own database and object store; stages need none.
resource "aws_iam_role" "volumes" {
  name               = "${var.name}-volumes"
  assume_role_policy = data.aws_iam_policy_document.federated["volumes"].json
}

resource "aws_iam_role_policy_attachment" "volumes" {
  role       = aws_iam_role.volumes.name
  policy_arn = "arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy"
}

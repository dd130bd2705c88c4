output "cluster" {
  description = "Name of the EKS cluster: aws eks update-kubeconfig --name ..."
  value       = aws_eks_cluster.this.name
}

output "store" {
  description = "What POSTTRAIN_STORE is set to."
  value       = "s3://${aws_s3_bucket.store.bucket}/store"
}

output "roles" {
  description = "Role -> its ARN, for the annotation eks.amazonaws.com/role-arn in infra/kubernetes."
  value       = { for account, role in aws_iam_role.account : account => role.arn }
}

output "node_pools" {
  description = "Pool label -> most nodes, GPUs of a node, spot."
  value = {
    for label, pool in local.node_pools : label => {
      max_nodes = lookup(var.max_nodes, label, pool.largest)
      gpus      = pool.gpus
      spot      = pool.spot
    }
  }
}

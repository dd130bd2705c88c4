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

output "region" {
  description = "Where everything is."
  value       = var.region
}

output "network" {
  description = "Address range of the VPC, in which the databases are."
  value       = aws_vpc.this.cidr_block
}

output "registries" {
  description = "Image -> address of its repository; pods name it with a digest."
  value       = { for name, one in aws_ecr_repository.image : name => one.repository_url }
}

output "databases" {
  description = "Database -> host, and the secret of Secrets Manager that holds user and password."
  value = {
    for name, one in aws_db_instance.this : name => {
      host   = one.address
      secret = one.master_user_secret[0].secret_arn
    }
  }
}

output "fabric" {
  description = "Pool label -> EFA interfaces of a node, to be named in the pool's fabric.resources as vpc.amazonaws.com/efa."
  value       = { for label, count in local.fabric : label => count }
}

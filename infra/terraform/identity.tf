# Which Kubernetes service account may do what in AWS; no key is stored anywhere.
resource "aws_iam_openid_connect_provider" "cluster" {
  url            = aws_eks_cluster.this.identity[0].oidc[0].issuer
  client_id_list = ["sts.amazonaws.com"]
}

locals {
  issuer = trimprefix(aws_iam_openid_connect_provider.cluster.url, "https://")

  # Service account -> the parts of the bucket that it reads and writes.
  prefixes = {
    stage  = "store"
    mlflow = "mlflow"
  }
  accounts = merge(
    { for account, _ in local.prefixes : account => "${var.namespace}:${account}" },
    { autoscaler = "kube-system:cluster-autoscaler" },
  )
}

data "aws_iam_policy_document" "federated" {
  for_each = local.accounts
  statement {
    actions = ["sts:AssumeRoleWithWebIdentity"]
    principals {
      type        = "Federated"
      identifiers = [aws_iam_openid_connect_provider.cluster.arn]
    }
    condition {
      test     = "StringEquals"
      variable = "${local.issuer}:sub"
      values   = ["system:serviceaccount:${each.value}"]
    }
    condition {
      test     = "StringEquals"
      variable = "${local.issuer}:aud"
      values   = ["sts.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "account" {
  for_each           = local.accounts
  name               = "${var.name}-${each.key}"
  assume_role_policy = data.aws_iam_policy_document.federated[each.key].json
}

data "aws_iam_policy_document" "bucket" {
  for_each = local.prefixes

  statement {
    actions   = ["s3:ListBucket"]
    resources = [aws_s3_bucket.store.arn]
    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = ["${each.value}/*"]
    }
  }
  statement {
    actions   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
    resources = ["${aws_s3_bucket.store.arn}/${each.value}/*"]
  }
  statement {
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
    resources = [aws_kms_key.store.arn]
  }
}

resource "aws_iam_role_policy" "bucket" {
  for_each = local.prefixes
  name     = "bucket"
  role     = aws_iam_role.account[each.key].name
  policy   = data.aws_iam_policy_document.bucket[each.key].json
}

# DescribeNodegroup tells the autoscaler labels and taints of a group that has no node yet.
data "aws_iam_policy_document" "autoscaler" {
  statement {
    actions = [
      "autoscaling:DescribeAutoScalingGroups",
      "autoscaling:DescribeAutoScalingInstances",
      "autoscaling:DescribeLaunchConfigurations",
      "autoscaling:DescribeScalingActivities",
      "autoscaling:DescribeTags",
      "ec2:DescribeImages",
      "ec2:DescribeInstanceTypes",
      "ec2:DescribeLaunchTemplateVersions",
      "ec2:GetInstanceTypesFromInstanceRequirements",
      "eks:DescribeNodegroup",
    ]
    resources = ["*"]
  }
  statement {
    actions   = ["autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"]
    resources = ["*"]
    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/k8s.io/cluster-autoscaler/${var.name}"
      values   = ["owned"]
    }
  }
}

resource "aws_iam_role_policy" "autoscaler" {
  name   = "autoscaler"
  role   = aws_iam_role.account["autoscaler"].name
  policy = data.aws_iam_policy_document.autoscaler.json
}

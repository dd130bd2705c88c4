# Which Kubernetes service account may do what in AWS; no key is stored anywhere.
resource "aws_iam_openid_connect_provider" "cluster" {
  url            = aws_eks_cluster.this.identity[0].oidc[0].issuer
  client_id_list = ["sts.amazonaws.com"]
}

locals {
  issuer = trimprefix(aws_iam_openid_connect_provider.cluster.url, "https://")

  # Service account -> the prefix of the bucket that it reads, and what below it it writes and deletes.
  # A stage deletes what it keeps for itself while it works: checkpoints to resume from, its locks, and the mark of a
  # collector that was killed. Artifacts and records are for gc alone to delete; it makes no artifact, but heals records.
  rights = {
    stage  = { prefix = "store", writes = ["*"], deletes = ["partial/*", "locks/*", "collecting/*"] }
    gc     = { prefix = "store", writes = ["locks/*", "collecting/*", "quarantine/*", "pins/*", "actions/*", "producers/*", "ledger/*", "models/*", "plans/*", "spool/*", "approvals/*", "delivered/*"], deletes = ["*"] }
    mlflow = { prefix = "mlflow", writes = ["*"], deletes = ["*"] }
  }
  accounts = merge(
    { for account, _ in local.rights : account => "${var.namespace}:${account}" },
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
  for_each = local.rights

  statement {
    actions   = ["s3:ListBucket"]
    resources = [aws_s3_bucket.store.arn]
    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = ["${each.value.prefix}/*"]
    }
  }
  statement {
    sid       = "Read"
    actions   = ["s3:GetObject"]
    resources = ["${aws_s3_bucket.store.arn}/${each.value.prefix}/*"]
  }
  statement {
    sid       = "Write"
    actions   = ["s3:PutObject", "s3:AbortMultipartUpload"]
    resources = [for part in each.value.writes : "${aws_s3_bucket.store.arn}/${each.value.prefix}/${part}"]
  }
  statement {
    sid       = "Delete"
    actions   = ["s3:DeleteObject"]
    resources = [for part in each.value.deletes : "${aws_s3_bucket.store.arn}/${each.value.prefix}/${part}"]
  }
  statement {
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
    resources = [aws_kms_key.store.arn]
  }
}

# Uploads that were never completed are listed by bucket and ended by key.
data "aws_iam_policy_document" "uploads" {
  statement {
    actions   = ["s3:ListBucketMultipartUploads"]
    resources = [aws_s3_bucket.store.arn]
  }
  statement {
    actions   = ["s3:AbortMultipartUpload"]
    resources = ["${aws_s3_bucket.store.arn}/${local.rights.gc.prefix}/*"]
  }
}

resource "aws_iam_role_policy" "bucket" {
  for_each = local.rights
  name     = "bucket"
  role     = aws_iam_role.account[each.key].name
  policy   = data.aws_iam_policy_document.bucket[each.key].json
}

resource "aws_iam_role_policy" "uploads" {
  name   = "uploads"
  role   = aws_iam_role.account["gc"].name
  policy = data.aws_iam_policy_document.uploads.json
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

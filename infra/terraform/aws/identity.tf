# Which Kubernetes service account may do what in AWS; no key is stored anywhere.
resource "aws_iam_openid_connect_provider" "cluster" {
  url            = aws_eks_cluster.this.identity[0].oidc[0].issuer
  client_id_list = ["sts.amazonaws.com"]
}

locals {
  issuer = trimprefix(aws_iam_openid_connect_provider.cluster.url, "https://")

  # Role -> the prefix of the bucket that it reads, and what below it it writes and deletes.
  # A stage deletes what it keeps for itself while it works: checkpoints to resume from, its locks, and the mark of a
  # collector that was killed. Artifacts and records are for gc alone to delete; it makes no artifact, but heals records.
  # engine and airflow plan runs, settle and drive stages and end runs; lineage notes how far it has delivered.
  rights = {
    stage   = { prefix = "store", writes = ["*"], deletes = ["partial/*", "locks/*", "collecting/*"] }
    engine  = { prefix = "store", writes = ["*"], deletes = ["partial/*", "locks/*", "collecting/*"] }
    airflow = { prefix = "store", writes = ["*"], deletes = ["partial/*", "locks/*", "collecting/*"] }
    lineage = { prefix = "store", writes = ["locks/*", "delivered/*"], deletes = ["locks/*", "collecting/*"] }
    gc      = { prefix = "store", writes = ["locks/*", "collecting/*", "quarantine/*", "pins/*", "actions/*", "producers/*", "ledger/*", "models/*", "plans/*", "spool/*", "approvals/*", "delivered/*"], deletes = ["*"] }
    mlflow  = { prefix = "mlflow", writes = ["*"], deletes = ["*"] }
  }
  # Role -> the service accounts that may take it. tests/infra compares them with infra/kubernetes and infra/airflow.
  accounts = {
    stage       = ["${var.namespace}:stage"]
    engine      = ["${var.namespace}:engine", "kubeflow:posttrain"]
    airflow     = ["airflow:airflow-scheduler", "airflow:airflow-triggerer", "airflow:airflow-worker"]
    airflow-api = ["airflow:airflow-api-server"]
    lineage     = ["${var.namespace}:lineage"]
    gc          = ["${var.namespace}:gc"]
    mlflow      = ["${var.namespace}:mlflow"]
    autoscaler  = ["kube-system:cluster-autoscaler"]
  }
  # Accounts of what EKS installs by itself (addons.tf): they are in no manifest of ours.
  addon_accounts = { volumes = ["kube-system:ebs-csi-controller-sa"] }
}

data "aws_iam_policy_document" "federated" {
  for_each = merge(local.accounts, local.addon_accounts)
  statement {
    actions = ["sts:AssumeRoleWithWebIdentity"]
    principals {
      type        = "Federated"
      identifiers = [aws_iam_openid_connect_provider.cluster.arn]
    }
    condition {
      test     = "StringEquals"
      variable = "${local.issuer}:sub"
      values   = [for account in each.value : "system:serviceaccount:${account}"]
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

# Logs of Airflow's tasks: the scheduler and the triggerer write them, the API server shows them.
data "aws_iam_policy_document" "logs" {
  for_each = { airflow = ["s3:GetObject", "s3:PutObject"], airflow-api = ["s3:GetObject"] }
  statement {
    actions   = ["s3:ListBucket"]
    resources = [aws_s3_bucket.store.arn]
    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = ["airflow-logs/*"]
    }
  }
  statement {
    actions   = each.value
    resources = ["${aws_s3_bucket.store.arn}/airflow-logs/*"]
  }
  statement {
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
    resources = [aws_kms_key.store.arn]
  }
}

resource "aws_iam_role_policy" "logs" {
  for_each = data.aws_iam_policy_document.logs
  name     = "logs"
  role     = aws_iam_role.account[each.key].name
  policy   = each.value.json
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

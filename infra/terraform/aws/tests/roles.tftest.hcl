# No account, no network: the provider is a mock. What is checked is what each service account may do in the bucket.
mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  bucket        = "posttrain-test"
  budget_emails = ["team@example.com"]
}

run "only_gc_deletes_artifacts_and_records" {
  command = plan
  override_resource {
    target          = aws_s3_bucket.store
    override_during = plan
    values          = { arn = "arn:aws:s3:::store" }
  }
  assert {
    condition = toset(flatten([
      for one in data.aws_iam_policy_document.bucket["stage"].statement : one.resources if contains(one.actions, "s3:DeleteObject")
    ])) == toset([for part in ["partial", "locks", "collecting"] : "arn:aws:s3:::store/store/${part}/*"])
    error_message = "a stage deletes its own checkpoints, locks and a dead collector's marks, and nothing else"
  }
  assert {
    condition = alltrue(flatten([
      for account, policy in data.aws_iam_policy_document.bucket : [
        for one in policy.statement : !strcontains(join(" ", one.actions), "*") && !contains(one.actions, "s3:DeleteObjectVersion")
      ]
    ]))
    error_message = "no account has all rights, and none deletes old versions: what was deleted can be brought back"
  }
  assert {
    condition = alltrue([
      for part in ["objects", "ledger", "actions", "partial"] : !anytrue(flatten([
        for one in data.aws_iam_policy_document.bucket["lineage"].statement : [
          for resource in one.resources : resource == "arn:aws:s3:::store/store/*" || strcontains(resource, "/store/${part}")
        ] if contains(one.actions, "s3:PutObject") || contains(one.actions, "s3:DeleteObject")
      ]))
    ])
    error_message = "what delivers lineage changes no artifact, record or checkpoint"
  }
  assert {
    condition     = alltrue([for one in data.aws_iam_policy_document.logs["airflow-api"].statement : !contains(one.actions, "s3:PutObject")])
    error_message = "Airflow's pages show logs and write none"
  }
  assert {
    condition = alltrue(flatten([
      for policy in data.aws_iam_policy_document.federated : [
        for one in policy.statement : [for trusted in one.condition : alltrue([for value in trusted.values : !strcontains(value, "*")])]
      ]
    ]))
    error_message = "every trusted service account is named in full"
  }
  assert {
    condition = toset(flatten([for one in data.aws_iam_policy_document.federated["volumes"].statement[0].condition : one.values])) == toset([
      "system:serviceaccount:kube-system:ebs-csi-controller-sa", "sts.amazonaws.com"
    ])
    error_message = "the driver of volumes is trusted, and it alone may attach them"
  }
  assert {
    condition = !anytrue(flatten([
      for one in data.aws_iam_policy_document.bucket["gc"].statement : [
        for resource in one.resources : strcontains(resource, "/store/objects") || strcontains(resource, "/store/*") || strcontains(resource, "/store/partial")
      ] if contains(one.actions, "s3:PutObject")
    ]))
    error_message = "gc writes no artifact and no checkpoint"
  }
}

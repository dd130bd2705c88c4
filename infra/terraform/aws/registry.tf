# Where `infra/images/build.sh` pushes. Pods name digests, so a tag that was pushed never means another image.
resource "aws_ecr_repository" "image" {
  for_each             = toset(["posttrain-cpu", "posttrain-gpu", "posttrain-airflow"])
  name                 = each.key
  image_tag_mutability = "IMMUTABLE"
  force_delete         = !var.keep_data

  image_scanning_configuration {
    scan_on_push = true
  }

  encryption_configuration {
    encryption_type = "KMS"
    kms_key         = aws_kms_key.store.arn
  }
}

# Tagged images stay: a run of last year names one by digest, and is repeated with it.
resource "aws_ecr_lifecycle_policy" "image" {
  for_each   = aws_ecr_repository.image
  repository = each.value.name
  policy = jsonencode({
    rules = [{
      rulePriority = 1
      description  = "pushes that nobody tagged"
      selection    = { tagStatus = "untagged", countType = "sinceImagePushed", countUnit = "days", countNumber = 30 }
      action       = { type = "expire" }
    }]
  })
}

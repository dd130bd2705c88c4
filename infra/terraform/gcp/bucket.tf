# What is reached cannot be told from an age: `posttrain gc` alone deletes artifacts, actions and records. Rules here do what
# those of ../aws/bucket.tf do: expire partial checkpoints, abort dead uploads.
resource "google_storage_bucket" "store" {
  name                        = var.bucket
  location                    = var.region
  force_destroy               = !var.keep_data
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  depends_on                  = [google_project_service.this]

  # Whoever may delete may delete old versions, too, and nobody what is in this trash: a deletion or an overwriting by
  # mistake can be undone for these days, which is why there are no versions.
  soft_delete_policy {
    retention_duration_seconds = var.noncurrent_days * 86400
  }

  lifecycle_rule {
    condition {
      age            = var.partial_days
      matches_prefix = ["store/partial/"]
    }
    action {
      type = "Delete"
    }
  }

  lifecycle_rule {
    condition {
      age = 2
    }
    action {
      type = "AbortIncompleteMultipartUpload"
    }
  }
}

# Where `make deploy` pushes. Pods name digests, so a tag that was pushed never means another image.
resource "google_artifact_registry_repository" "images" {
  repository_id          = var.name
  location               = var.region
  format                 = "DOCKER"
  cleanup_policy_dry_run = false
  depends_on             = [google_project_service.this]

  docker_config {
    immutable_tags = true
  }

  # Tagged images stay: a run of last year names one by digest, and is repeated with it.
  cleanup_policies {
    id     = "pushes-that-nobody-tagged"
    action = "DELETE"
    condition {
      tag_state  = "UNTAGGED"
      older_than = "2592000s"
    }
  }
}

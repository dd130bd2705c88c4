# Nodes have the least rights that a node needs: images, logs, metrics. What stages may do is their service accounts' business.
resource "google_service_account" "node" {
  account_id   = "${var.name}-node"
  display_name = "Nodes of ${var.name}"
  depends_on   = [google_project_service.this]
}

resource "google_project_iam_member" "node" {
  for_each = toset(["roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader"])
  project  = var.project
  role     = each.key
  member   = "serviceAccount:${google_service_account.node.email}"
}

resource "google_container_cluster" "this" {
  name       = var.name
  location   = var.zone
  network    = google_compute_network.this.id
  subnetwork = google_compute_subnetwork.nodes.id

  # Pools are made by themselves: with the one that comes with a cluster, a change of its nodes would replace the cluster.
  remove_default_node_pool = true
  initial_node_count       = 1
  deletion_protection      = false

  # Dataplane V2 enforces network policies by itself; the older agent has to be off beside it.
  datapath_provider = "ADVANCED_DATAPATH"
  networking_mode   = "VPC_NATIVE"

  release_channel {
    channel = var.release_channel
  }

  ip_allocation_policy {
    cluster_secondary_range_name  = "pods"
    services_secondary_range_name = "services"
  }

  private_cluster_config {
    enable_private_nodes    = true
    enable_private_endpoint = length(var.operator_cidrs) == 0
    master_ipv4_cidr_block  = "172.16.0.0/28"
  }

  master_authorized_networks_config {
    dynamic "cidr_blocks" {
      for_each = var.operator_cidrs
      content {
        cidr_block = cidr_blocks.value
      }
    }
  }

  workload_identity_config {
    workload_pool = "${var.project}.svc.id.goog"
  }

  # A pod that waits for a GPU gets a node of a pool that is there: none is made up, which infra/pools.yaml would not know.
  cluster_autoscaling {
    enabled             = false
    autoscaling_profile = "OPTIMIZE_UTILIZATION"
  }

  addons_config {
    gce_persistent_disk_csi_driver_config {
      enabled = true
    }
    gcp_filestore_csi_driver_config {
      enabled = var.filestore
    }
  }

  depends_on = [google_project_service.this]
}

resource "google_project_iam_member" "admin" {
  for_each = toset(var.admins)
  project  = var.project
  role     = "roles/container.admin"
  member   = each.key
}

resource "google_project_iam_member" "viewer" {
  for_each = setsubtract(var.viewers, var.admins)
  project  = var.project
  role     = "roles/container.viewer"
  member   = each.key
}

locals {
  # Kubernetes spells an effect NoSchedule, GKE's interface NO_SCHEDULE. GKE itself taints nodes that have GPUs.
  taint_values = { "nvidia.com/gpu" = "present", "posttrain.dev/spot" = "true" }
}

resource "google_container_node_pool" "system" {
  name     = "system"
  cluster  = google_container_cluster.this.id
  location = var.zone

  autoscaling {
    min_node_count = 1
    max_node_count = 6
  }
  initial_node_count = 2

  node_config {
    machine_type    = var.system_machine_type
    disk_size_gb    = 80
    service_account = google_service_account.node.email
    oauth_scopes    = ["https://www.googleapis.com/auth/cloud-platform"]

    # Pods have the identity of their service account, and never the node's.
    workload_metadata_config {
      mode = "GKE_METADATA"
    }
    shielded_instance_config {
      enable_secure_boot          = true
      enable_integrity_monitoring = true
    }
  }

  lifecycle {
    ignore_changes = [initial_node_count]
  }
}

# Nodes that cost money exist only while a job runs: GKE's autoscaler raises a pool from zero when a pod selects it.
resource "google_container_node_pool" "pool" {
  for_each = local.node_pools
  name     = each.key
  cluster  = google_container_cluster.this.id
  location = var.zone

  autoscaling {
    min_node_count = 0
    max_node_count = lookup(var.max_nodes, each.key, each.value.largest)
  }
  initial_node_count = 0

  dynamic "placement_policy" {
    for_each = contains(keys(google_compute_resource_policy.fabric), each.key) ? [google_compute_resource_policy.fabric[each.key].name] : []
    content {
      type        = "COMPACT"
      policy_name = placement_policy.value
    }
  }

  node_config {
    machine_type    = try(var.machines[each.key].type, "")
    disk_size_gb    = var.disk_gib
    spot            = each.value.spot
    labels          = { (local.label) = each.key }
    service_account = google_service_account.node.email
    oauth_scopes    = ["https://www.googleapis.com/auth/cloud-platform"]

    dynamic "guest_accelerator" {
      for_each = try(var.machines[each.key].gpus, 0) > 0 ? [var.machines[each.key]] : []
      content {
        type  = guest_accelerator.value.accelerator
        count = guest_accelerator.value.gpus
        gpu_driver_installation_config {
          gpu_driver_version = "LATEST"
        }
      }
    }

    # Local disks hold images, logs and /tmp of pods.
    dynamic "ephemeral_storage_local_ssd_config" {
      for_each = try(var.machines[each.key].local_disks, 0) > 0 ? [var.machines[each.key].local_disks] : []
      content {
        local_ssd_count = ephemeral_storage_local_ssd_config.value
      }
    }

    dynamic "fast_socket" {
      for_each = try(var.machines[each.key].fast_socket, false) ? [true] : []
      content {
        enabled = true
      }
    }

    dynamic "gvnic" {
      for_each = each.value.gpus > 0 ? [true] : []
      content {
        enabled = true
      }
    }

    dynamic "reservation_affinity" {
      for_each = contains(keys(var.reservations), each.key) ? [var.reservations[each.key]] : []
      content {
        consume_reservation_type = "SPECIFIC_RESERVATION"
        key                      = "compute.googleapis.com/reservation-name"
        values                   = [reservation_affinity.value]
      }
    }

    dynamic "taint" {
      for_each = each.value.taint_keys
      content {
        key    = taint.value
        value  = local.taint_values[taint.value]
        effect = "NO_SCHEDULE"
      }
    }

    workload_metadata_config {
      mode = "GKE_METADATA"
    }
    shielded_instance_config {
      enable_secure_boot          = each.value.gpus == 0
      enable_integrity_monitoring = true
    }
  }

  lifecycle {
    ignore_changes = [initial_node_count]
    precondition {
      condition     = contains(keys(var.machines), each.key)
      error_message = "machines names no machine type for the pool label '${each.key}' of infra/pools.yaml."
    }
    precondition {
      condition     = try(var.machines[each.key].gpus, 0) == each.value.gpus
      error_message = "machines gives the pool label '${each.key}' another number of GPUs than infra/pools.yaml."
    }
  }
}

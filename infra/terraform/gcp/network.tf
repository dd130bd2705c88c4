resource "google_compute_network" "this" {
  name                    = var.name
  auto_create_subnetworks = false
  depends_on              = [google_project_service.this]
}

# Nodes, pods and services have ranges of their own; nodes reach Google's interfaces (the bucket, images) without an address.
resource "google_compute_subnetwork" "nodes" {
  name                     = "${var.name}-nodes"
  network                  = google_compute_network.this.id
  region                   = var.region
  ip_cidr_range            = "10.60.0.0/20"
  private_ip_google_access = true

  secondary_ip_range {
    range_name    = "pods"
    ip_cidr_range = "10.64.0.0/14"
  }
  secondary_ip_range {
    range_name    = "services"
    ip_cidr_range = "10.61.0.0/20"
  }
}

# Other registries, and what stages read from the internet.
resource "google_compute_router" "this" {
  name    = var.name
  network = google_compute_network.this.id
  region  = var.region
}

resource "google_compute_router_nat" "this" {
  name                               = var.name
  router                             = google_compute_router.this.name
  region                             = var.region
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "ALL_SUBNETWORKS_ALL_IP_RANGES"
}

# The range of the databases, which Google runs in a network of its own beside ours.
resource "google_compute_global_address" "services" {
  name          = "${var.name}-services"
  purpose       = "VPC_PEERING"
  address_type  = "INTERNAL"
  address       = "10.70.0.0"
  prefix_length = 16
  network       = google_compute_network.this.id
}

resource "google_service_networking_connection" "this" {
  network                 = google_compute_network.this.id
  service                 = "servicenetworking.googleapis.com"
  reserved_peering_ranges = [google_compute_global_address.services.name]
  deletion_policy         = "ABANDON"
}

# Nodes of one job close to each other: a policy for each pool of jobs on several nodes.
resource "google_compute_resource_policy" "fabric" {
  for_each = { for label, pool in local.node_pools : label => pool if pool.largest > 1 && !contains(keys(var.reservations), label) }
  name     = "${var.name}-${each.key}"
  region   = var.region

  group_placement_policy {
    collocation = "COLLOCATED"
  }
}

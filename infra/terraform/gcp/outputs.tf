output "cluster" {
  description = "Name of the GKE cluster."
  value       = google_container_cluster.this.name
}

output "location" {
  description = "Zone of the cluster: gcloud container clusters get-credentials ... --location"
  value       = google_container_cluster.this.location
}

output "project" {
  description = "Project that all of it is in."
  value       = var.project
}

output "region" {
  description = "Region of bucket, databases and images."
  value       = var.region
}

output "network" {
  description = "Address range of the databases."
  value       = "${google_compute_global_address.services.address}/${google_compute_global_address.services.prefix_length}"
}

output "store" {
  description = "What POSTTRAIN_STORE is set to; AWS_ENDPOINT_URL says that the bucket is Google's."
  value       = "s3://${google_storage_bucket.store.name}/store"
}

output "roles" {
  description = "Role -> service account of Google, for the annotation iam.gke.io/gcp-service-account in infra/kubernetes."
  value       = { for role, account in google_service_account.account : role => account.email }
}

output "registries" {
  description = "Image -> address of its repository; pods name it with a digest."
  value = {
    for name in ["posttrain-cpu", "posttrain-gpu", "posttrain-airflow"] : name => "${var.region}-docker.pkg.dev/${var.project}/${google_artifact_registry_repository.images.repository_id}/${name}"
  }
}

output "databases" {
  description = "Database -> address inside the network, and name of its server."
  value       = { for name, one in google_sql_database_instance.this : name => { host = one.private_ip_address, instance = one.name } }
}

output "node_pools" {
  description = "Pool label -> most nodes, GPUs of a node, spot."
  value = {
    for label, pool in local.node_pools : label => {
      max_nodes = lookup(var.max_nodes, label, pool.largest)
      gpus      = pool.gpus
      spot      = pool.spot
    }
  }
}

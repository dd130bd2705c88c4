# PostgreSQL for MLflow and Airflow. A server each: neither can read the other's rows, and each is restored by itself.
resource "google_sql_database_instance" "this" {
  for_each            = var.databases
  name                = "${var.name}-${each.key}"
  region              = var.region
  database_version    = "POSTGRES_16"
  deletion_protection = var.keep_data
  depends_on          = [google_service_networking_connection.this]

  settings {
    tier                        = var.database_tier
    edition                     = "ENTERPRISE"
    availability_type           = var.database_standby ? "REGIONAL" : "ZONAL"
    disk_type                   = "PD_SSD"
    disk_size                   = 20
    disk_autoresize             = true
    disk_autoresize_limit       = 500
    deletion_protection_enabled = var.keep_data
    retain_backups_on_delete    = var.keep_data

    ip_configuration {
      ipv4_enabled    = false
      private_network = google_compute_network.this.id
      ssl_mode        = "ENCRYPTED_ONLY"
    }

    backup_configuration {
      enabled                        = true
      point_in_time_recovery_enabled = true
      backup_retention_settings {
        retained_backups = 14
      }
    }
  }
}

# Users are made by `make deploy`, with passwords that are in no file and in no state.
resource "google_sql_database" "this" {
  for_each        = var.databases
  name            = each.key
  instance        = google_sql_database_instance.this[each.key].name
  deletion_policy = "ABANDON"
}

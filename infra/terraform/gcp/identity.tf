# Which Kubernetes service account may do what in the bucket: workload identity, so that no stage has a key. MLflow and the logs of
# Airflow, programs that speak only Amazon's S3, have a key each, which `make deploy` makes and keeps in a Secret alone.
locals {
  # Role -> the prefix of the bucket that it reads, and what below it it writes and deletes: as in ../aws/identity.tf.
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
  }
  pairs = merge([for role, accounts in local.accounts : { for account in accounts : "${role} ${account}" => { role = role, account = account } }]...)

  # A condition on names begins with this; Google writes a store's folder as part of an object's name.
  objects = "projects/_/buckets/${var.bucket}/objects"

  # Airflow's logs: the scheduler and the triggerer write them, the API server shows them.
  logs = { airflow = "roles/storage.objectUser", airflow-api = "roles/storage.objectViewer" }
}

resource "google_service_account" "account" {
  for_each     = local.accounts
  account_id   = "${var.name}-${each.key}"
  display_name = "${var.name}: ${each.key}"
  depends_on   = [google_project_service.this]
}

resource "google_service_account_iam_member" "account" {
  for_each           = local.pairs
  service_account_id = google_service_account.account[each.value.role].name
  role               = "roles/iam.workloadIdentityUser"
  member             = "serviceAccount:${var.project}.svc.id.goog[${replace(each.value.account, ":", "/")}]"
  depends_on         = [google_container_cluster.this]
}

# Who overwrites an object deletes what was there, says Google: a right to write without one to delete does not exist where
# records are renewed. What is deleted or overwritten stays for noncurrent_days, whoever did it (bucket.tf).
resource "google_project_iam_custom_role" "bucket" {
  for_each = {
    reads   = ["storage.objects.get", "storage.objects.list", "storage.multipartUploads.list", "storage.multipartUploads.listParts"]
    changes = ["storage.objects.create", "storage.objects.delete", "storage.multipartUploads.create", "storage.multipartUploads.abort"]
  }
  role_id     = replace("${var.name}_${each.key}", "-", "_")
  title       = "${var.name}: ${each.key} objects"
  permissions = each.value
  depends_on  = [google_project_service.this]
}

# Who lists asks the bucket and not an object: there the prefix that is asked for counts.
resource "google_storage_bucket_iam_member" "reads" {
  for_each = local.rights
  bucket   = google_storage_bucket.store.name
  role     = google_project_iam_custom_role.bucket["reads"].id
  member   = "serviceAccount:${google_service_account.account[each.key].email}"

  condition {
    title      = "reads"
    expression = "resource.name.startsWith('${local.objects}/${each.value.prefix}/') || api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith('${each.value.prefix}/')"
  }
}

resource "google_storage_bucket_iam_member" "changes" {
  for_each = local.rights
  bucket   = google_storage_bucket.store.name
  role     = google_project_iam_custom_role.bucket["changes"].id
  member   = "serviceAccount:${google_service_account.account[each.key].email}"

  condition {
    title      = "changes"
    expression = join(" || ", [for part in distinct(concat(each.value.writes, each.value.deletes)) : "resource.name.startsWith('${local.objects}/${each.value.prefix}/${trimsuffix(part, "*")}')"])
  }
}

resource "google_storage_bucket_iam_member" "logs" {
  for_each = local.logs
  bucket   = google_storage_bucket.store.name
  role     = each.value
  member   = "serviceAccount:${google_service_account.account[each.key].email}"

  condition {
    title      = "logs"
    expression = "resource.name.startsWith('${local.objects}/airflow-logs/') || api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith('airflow-logs/')"
  }
}

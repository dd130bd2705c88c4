# An alarm, not a limit: for this project alone.
data "google_project" "this" {
  project_id = var.project
}

resource "google_monitoring_notification_channel" "person" {
  for_each     = toset(var.budget_emails)
  display_name = "${var.name}: costs, ${each.key}"
  type         = "email"
  labels       = { email_address = each.key }
  depends_on   = [google_project_service.this]
}

resource "google_billing_budget" "month" {
  provider        = google.billing
  billing_account = var.billing_account
  display_name    = var.name
  depends_on      = [google_project_service.this]

  budget_filter {
    projects = ["projects/${data.google_project.this.number}"]
  }

  amount {
    specified_amount {
      currency_code = "USD"
      units         = tostring(var.budget_usd)
    }
  }

  dynamic "threshold_rules" {
    for_each = { half = [0.5, "CURRENT_SPEND"], most = [0.8, "CURRENT_SPEND"], all = [1.0, "CURRENT_SPEND"], soon = [1.0, "FORECASTED_SPEND"] }
    content {
      threshold_percent = threshold_rules.value[0]
      spend_basis       = threshold_rules.value[1]
    }
  }

  all_updates_rule {
    monitoring_notification_channels = [for one in google_monitoring_notification_channel.person : one.id]
    disable_default_iam_recipients   = false
  }
}

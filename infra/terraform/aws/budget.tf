# An alarm, not a limit. It watches the whole account: AWS knows costs by our tag only where somebody activated it for billing.
data "aws_caller_identity" "current" {}

resource "aws_budgets_budget" "month" {
  account_id   = data.aws_caller_identity.current.account_id
  name         = var.name
  budget_type  = "COST"
  limit_amount = format("%.1f", var.budget_usd)
  limit_unit   = "USD"
  time_unit    = "MONTHLY"

  dynamic "notification" {
    for_each = { half = [50, "ACTUAL"], most = [80, "ACTUAL"], all = [100, "ACTUAL"], soon = [100, "FORECASTED"] }
    content {
      comparison_operator        = "GREATER_THAN"
      threshold                  = notification.value[0]
      threshold_type             = "PERCENTAGE"
      notification_type          = notification.value[1]
      subscriber_email_addresses = var.budget_emails
    }
  }
}

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.100"
    }
  }
}

provider "aws" {
  region = var.region

  default_tags {
    tags = { project = var.name }
  }

  # The endpoint and what follows it are for a local server that speaks the AWS API; without it all is as usual.
  access_key                  = var.endpoint == null ? null : "testing"
  secret_key                  = var.endpoint == null ? null : "testing"
  s3_use_path_style           = var.endpoint != null
  skip_credentials_validation = var.endpoint != null
  skip_metadata_api_check     = var.endpoint != null
  skip_requesting_account_id  = var.endpoint != null

  dynamic "endpoints" {
    for_each = var.endpoint == null ? [] : [var.endpoint]
    content {
      autoscaling    = endpoints.value
      budgets        = endpoints.value
      ec2            = endpoints.value
      ecr            = endpoints.value
      eks            = endpoints.value
      iam            = endpoints.value
      kms            = endpoints.value
      rds            = endpoints.value
      s3             = endpoints.value
      secretsmanager = endpoints.value
      sts            = endpoints.value
    }
  }
}

terraform {
  required_version = ">= 1.9"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 7.0"
    }
  }
}

provider "google" {
  project = var.project
  region  = var.region

  default_labels = { project = var.name }
}

# Billing's own interfaces ask which project a request is counted for.
provider "google" {
  alias                 = "billing"
  project               = var.project
  billing_project       = var.project
  user_project_override = true
}

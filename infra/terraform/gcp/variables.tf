variable "name" {
  description = "Name of the cluster and prefix of everything that belongs to it."
  type        = string
  default     = "posttrain"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,15}$", var.name))
    error_message = "name: 2 to 16 characters of a-z, 0-9 and '-', a letter first; accounts have it as a prefix of their 30."
  }
}

variable "project" {
  description = "Project of Google Cloud, which exists and has a billing account."
  type        = string
}

variable "region" {
  description = "Region of the bucket, the databases and the images."
  type        = string
  default     = "us-central1"
}

variable "zone" {
  description = "Zone of the cluster and its nodes: one, because nodes of a job, and reservations, are in one. A3 and G2 are not in every zone."
  type        = string
  default     = "us-central1-a"

  validation {
    condition     = startswith(var.zone, "${var.region}-")
    error_message = "zone: expected one of the region, such as us-central1-a."
  }
}

variable "bucket" {
  description = "Name of the bucket that holds artifacts, the run ledger and MLflow's files; unique in all of Google Cloud."
  type        = string
}

variable "release_channel" {
  description = "Channel of GKE, which upgrades the control plane and nodes by itself: REGULAR is two to three months behind RAPID."
  type        = string
  default     = "REGULAR"

  validation {
    condition     = contains(["RAPID", "REGULAR", "STABLE"], var.release_channel)
    error_message = "release_channel: expected RAPID, REGULAR or STABLE."
  }
}

variable "operator_cidrs" {
  description = "Address ranges that may reach the Kubernetes API from outside; none by default."
  type        = list(string)
  default     = []

  validation {
    condition     = !contains(var.operator_cidrs, "0.0.0.0/0")
    error_message = "operator_cidrs: the Kubernetes API is not for everybody; name your own ranges."
  }
}

variable "admins" {
  description = "Who administers the cluster, beside whoever applies this: group:platform@example.com, user:ann@example.com."
  type        = list(string)
  default     = []
}

variable "viewers" {
  description = "Who may look at everything in the cluster but Secrets."
  type        = list(string)
  default     = []
}

variable "machines" {
  description = "Pool label -> machine type, its local NVMe disks (of 375 GiB each), and the GPU that has to be named where the type does not imply it."
  type = map(object({
    type        = string
    local_disks = optional(number, 0)
    accelerator = optional(string)
    gpus        = optional(number, 0)
    fast_socket = optional(bool, false)
  }))
  default = {
    cpu-large   = { type = "n2-standard-16" }
    l4x1        = { type = "g2-standard-8", local_disks = 1, accelerator = "nvidia-l4", gpus = 1 }
    l4x1-spot   = { type = "g2-standard-8", local_disks = 1, accelerator = "nvidia-l4", gpus = 1 }
    h100x1      = { type = "a3-highgpu-1g", local_disks = 2, accelerator = "nvidia-h100-80gb", gpus = 1 }
    h100x1-spot = { type = "a3-highgpu-1g", local_disks = 2, accelerator = "nvidia-h100-80gb", gpus = 1 }
    h100x8      = { type = "a3-highgpu-8g", local_disks = 16, accelerator = "nvidia-h100-80gb", gpus = 8, fast_socket = true }
    h100x8-spot = { type = "a3-highgpu-8g", local_disks = 16, accelerator = "nvidia-h100-80gb", gpus = 8 }
  }
}

variable "reservations" {
  description = "Pool label -> reservation of Compute Engine that its nodes come from."
  type        = map(string)
  default     = {}
}

variable "max_nodes" {
  description = "Pool label -> most nodes at a time; what is not named gets as many as the pool's largest job needs."
  type        = map(number)
  default     = {}
}

variable "disk_gib" {
  description = "Boot disk of a pool's node; where there is no local disk, image layers and what a stage reads are on it."
  type        = number
  default     = 300
}

variable "system_machine_type" {
  description = "Nodes of the system pool: Kubeflow or Airflow, MLflow, and jobs of the pool 'cpu'."
  type        = string
  default     = "e2-standard-4"
}

variable "filestore" {
  description = "Whether GKE gets the driver of Filestore, for volumes that several pods write (1 TiB at the least)."
  type        = bool
  default     = false
}

variable "databases" {
  description = "PostgreSQL servers, each with one database of the same name."
  type        = set(string)
  default     = ["mlflow", "airflow"]
}

variable "database_tier" {
  description = "Size of each PostgreSQL server."
  type        = string
  default     = "db-custom-1-3840"
}

variable "database_standby" {
  description = "Whether each PostgreSQL server has a standby in another zone."
  type        = bool
  default     = false
}

variable "keep_data" {
  description = "Whether Google refuses to delete databases, images, and a bucket with objects in it."
  type        = bool
  default     = true
}

variable "billing_account" {
  description = "Billing account of the project, such as 012345-6789AB-CDEF01; whoever applies this may make budgets in it."
  type        = string
}

variable "budget_usd" {
  description = "What the project may cost in a month before budget_emails are told, at 50, 80 and 100 % and when a forecast exceeds it."
  type        = number
  default     = 1000
}

variable "budget_emails" {
  description = "Who is told: GPU nodes that somebody forgot cost thousands a day."
  type        = list(string)

  validation {
    condition     = length(var.budget_emails) > 0 && length(var.budget_emails) <= 5 && alltrue([for one in var.budget_emails : can(regex("^[^@ ]+@[^@ ]+$", one))])
    error_message = "budget_emails: expected 1 to 5 addresses, such as [\"team@example.com\"]."
  }
}

variable "partial_days" {
  description = "Days after which checkpoints of stages that nobody finished are removed; a stage renews its own each week."
  type        = number
  default     = 30
}

variable "noncurrent_days" {
  description = "Days for which overwritten and removed objects can still be brought back."
  type        = number
  default     = 30

  validation {
    condition     = var.noncurrent_days >= 7 && var.noncurrent_days <= 90
    error_message = "noncurrent_days: Google keeps removed objects for 7 to 90 days."
  }
}

variable "namespace" {
  description = "Kubernetes namespace of stages and MLflow, as in infra/kubernetes."
  type        = string
  default     = "posttrain"
}

variable "name" {
  description = "Name of the cluster and prefix of everything that belongs to it."
  type        = string
  default     = "posttrain"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,30}$", var.name))
    error_message = "name: 2 to 31 characters of a-z, 0-9 and '-', a letter first."
  }
}

variable "region" {
  description = "AWS region; a plan fails where its zones do not offer the instance types."
  type        = string
  default     = "us-east-2"
}

variable "bucket" {
  description = "Name of the bucket that holds artifacts, the run ledger and MLflow's files; unique in all of AWS."
  type        = string
}

variable "kubernetes_version" {
  description = "Version of the EKS control plane; 1.35 is in standard support until 2027-03-27."
  type        = string
  default     = "1.35"
}

variable "vpc_cidr" {
  description = "Address range of the VPC; each zone gets a private /20 and a public /24 of it."
  type        = string
  default     = "10.60.0.0/16"

  validation {
    condition     = can(cidrhost(var.vpc_cidr, 0)) && tonumber(split("/", var.vpc_cidr)[1]) <= 16
    error_message = "vpc_cidr: expected a range of at least /16, such as 10.60.0.0/16."
  }
}

variable "zones" {
  description = "Availability zones by letter; EKS needs two or more. GPU instances are not offered in every zone."
  type        = list(string)
  default     = ["a", "b"]

  validation {
    condition     = length(var.zones) >= 2 && length(distinct(var.zones)) == length(var.zones)
    error_message = "zones: expected at least two different letters."
  }
}

variable "operator_cidrs" {
  description = "Address ranges that may reach the Kubernetes API from outside the VPC; none by default."
  type        = list(string)
  default     = []

  validation {
    condition     = !contains(var.operator_cidrs, "0.0.0.0/0")
    error_message = "operator_cidrs: the Kubernetes API is not for everybody; name your own ranges."
  }
}

variable "admins" {
  description = "ARNs of IAM roles and users that administer the cluster, beside whoever applies this."
  type        = list(string)
  default     = []
}

variable "viewers" {
  description = "ARNs of IAM roles and users that may look at everything in the cluster but Secrets."
  type        = list(string)
  default     = []
}

variable "instance_types" {
  description = "Pool label -> instance types, for each kind of node that infra/pools.yaml asks for."
  type        = map(list(string))
  default = {
    cpu-large   = ["m7i.4xlarge"]
    l4x1        = ["g6.2xlarge"]
    l4x1-spot   = ["g6.2xlarge", "g6.4xlarge"]
    h100x1      = ["p5.4xlarge"]
    h100x1-spot = ["p5.4xlarge"]
    h100x8      = ["p5.48xlarge"]
    h100x8-spot = ["p5.48xlarge"]
  }
}

variable "machines" {
  description = "Instance type -> local NVMe disks in GiB, all together, and EFA interfaces; types not named have none."
  type        = map(object({ nvme_gib = optional(number, 0), efa_interfaces = optional(number, 0) }))
  default = {
    "g6.2xlarge"  = { nvme_gib = 419 }
    "g6.4xlarge"  = { nvme_gib = 558 }
    "p5.4xlarge"  = { nvme_gib = 3576 }
    "p5.48xlarge" = { nvme_gib = 28610, efa_interfaces = 32 }
  }
}

variable "capacity_blocks" {
  description = "Pool label -> ID of a Capacity Block or targeted reservation of EC2 that its nodes come from, such as cr-0123456789abcdef0."
  type        = map(object({ id = string, zone = string, block = optional(bool, true) }))
  default     = {}
}

variable "max_nodes" {
  description = "Pool label -> most nodes at a time; what is not named gets as many as the pool's largest job needs."
  type        = map(number)
  default     = {}
}

variable "disk_gib" {
  description = "Root disk of a pool's node; where there is no NVMe, image layers and the artifacts that a stage reads are on it."
  type        = number
  default     = 300
}

variable "system_instance_type" {
  description = "Nodes of the system group: Kubeflow or Airflow, MLflow, and jobs of the pool 'cpu'."
  type        = string
  default     = "m7i.xlarge"
}

variable "databases" {
  description = "PostgreSQL servers, each with one database of the same name."
  type        = set(string)
  default     = ["mlflow", "airflow"]
}

variable "database_instance_type" {
  description = "Size of each PostgreSQL server."
  type        = string
  default     = "db.t4g.medium"
}

variable "database_standby" {
  description = "Whether each PostgreSQL server has a standby in another zone."
  type        = bool
  default     = false
}

variable "keep_data" {
  description = "Whether AWS refuses to delete databases, images, and a bucket with objects in it."
  type        = bool
  default     = true
}

variable "budget_usd" {
  description = "What the account may cost in a month before budget_emails are told, at 50, 80 and 100 % and when a forecast exceeds it."
  type        = number
  default     = 1000
}

variable "budget_emails" {
  description = "Who is told: GPU nodes that somebody forgot cost thousands a day."
  type        = list(string)

  validation {
    condition     = length(var.budget_emails) > 0 && length(var.budget_emails) <= 10 && alltrue([for one in var.budget_emails : can(regex("^[^@ ]+@[^@ ]+$", one))])
    error_message = "budget_emails: expected 1 to 10 addresses, such as [\"team@example.com\"]."
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
}

variable "namespace" {
  description = "Kubernetes namespace of stages and MLflow, as in infra/kubernetes."
  type        = string
  default     = "posttrain"
}

variable "endpoint" {
  description = "Address of a local server that speaks the AWS API, for tests; null is AWS itself."
  type        = string
  default     = null
}

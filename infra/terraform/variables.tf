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
  description = "AWS region."
  type        = string
  default     = "eu-west-1"
}

variable "bucket" {
  description = "Name of the bucket that holds artifacts, the run ledger and MLflow's files; unique in all of AWS."
  type        = string
}

variable "kubernetes_version" {
  description = "Version of the EKS control plane."
  type        = string
  default     = "1.32"
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

variable "max_nodes" {
  description = "Pool label -> most nodes at a time; what is not named gets as many as the pool's largest job needs."
  type        = map(number)
  default     = {}
}

variable "disk_gib" {
  description = "Root disk of a pool's node: image layers and the copies of artifacts that a stage reads."
  type        = number
  default     = 300
}

variable "system_instance_type" {
  description = "Nodes of the system group: Kubeflow or Airflow, MLflow, and jobs of the pool 'cpu'."
  type        = string
  default     = "m7i.xlarge"
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

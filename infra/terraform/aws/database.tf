# PostgreSQL for MLflow and Airflow. A server each: neither can read the other's rows, and each is restored by itself.
resource "aws_db_subnet_group" "this" {
  name       = var.name
  subnet_ids = [for subnet in aws_subnet.private : subnet.id]
}

resource "aws_security_group" "database" {
  name        = "${var.name}-database"
  description = "PostgreSQL, from the cluster's nodes and pods alone"
  vpc_id      = aws_vpc.this.id
}

resource "aws_vpc_security_group_ingress_rule" "database" {
  security_group_id            = aws_security_group.database.id
  referenced_security_group_id = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
  ip_protocol                  = "tcp"
  from_port                    = 5432
  to_port                      = 5432
}

resource "aws_db_parameter_group" "this" {
  name   = "${var.name}-postgres16"
  family = "postgres16"

  parameter {
    name  = "rds.force_ssl"
    value = "1"
  }
}

resource "aws_db_instance" "this" {
  for_each               = var.databases
  identifier             = "${var.name}-${each.key}"
  engine                 = "postgres"
  engine_version         = "16"
  instance_class         = var.database_instance_type
  allocated_storage      = 20
  max_allocated_storage  = 500
  storage_type           = "gp3"
  storage_encrypted      = true
  kms_key_id             = aws_kms_key.store.arn
  multi_az               = var.database_standby
  db_name                = each.key
  username               = each.key
  db_subnet_group_name   = aws_db_subnet_group.this.name
  vpc_security_group_ids = [aws_security_group.database.id]
  parameter_group_name   = aws_db_parameter_group.this.name
  publicly_accessible    = false
  copy_tags_to_snapshot  = true

  # RDS draws the password and keeps it in Secrets Manager: it is in no file and in no state.
  manage_master_user_password   = true
  master_user_secret_kms_key_id = aws_kms_key.store.key_id

  backup_retention_period   = 14
  deletion_protection       = var.keep_data
  skip_final_snapshot       = !var.keep_data
  final_snapshot_identifier = "${var.name}-${each.key}-final"
}

# RDS draws a new password each week unless told otherwise, and running pods would not know it. Nothing hands a new one on yet.
resource "aws_secretsmanager_secret_rotation" "database" {
  for_each           = var.databases
  secret_id          = aws_db_instance.this[each.key].master_user_secret[0].secret_arn
  rotate_immediately = false

  rotation_rules {
    automatically_after_days = 1000
  }
}

# What the mocked provider returns where terraform checks the form of a value.
mock_data "aws_iam_policy_document" {
  defaults = { json = "{\"Version\": \"2012-10-17\", \"Statement\": []}" }
}
mock_resource "aws_iam_role" {
  defaults = { arn = "arn:aws:iam::123456789012:role/mock" }
}
mock_resource "aws_kms_key" {
  defaults = { arn = "arn:aws:kms:us-east-2:123456789012:key/mock" }
}
mock_resource "aws_iam_openid_connect_provider" {
  defaults = { arn = "arn:aws:iam::123456789012:oidc-provider/mock" }
}
mock_resource "aws_launch_template" {
  defaults = { id = "lt-0123456789abcdef0", latest_version = 1 }
}
mock_resource "aws_eks_cluster" {
  defaults = { identity = [{ oidc = [{ issuer = "https://oidc.example/id/MOCK" }] }], vpc_config = { cluster_security_group_id = "sg-0123456789abcdef0" } }
}
mock_resource "aws_db_instance" {
  defaults = { address = "database.example", master_user_secret = [{ secret_arn = "arn:aws:secretsmanager:us-east-2:123456789012:secret:mock" }] }
}
mock_data "aws_ec2_instance_type_offerings" {
  defaults = { instance_types = ["m7i.4xlarge", "g6.2xlarge", "g6.4xlarge", "p5.4xlarge", "p5.48xlarge"] }
}
mock_data "aws_caller_identity" {
  defaults = { account_id = "123456789012" }
}

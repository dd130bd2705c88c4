# What the mocked provider returns where terraform checks the form of a value.
mock_data "aws_iam_policy_document" {
  defaults = { json = "{\"Version\": \"2012-10-17\", \"Statement\": []}" }
}
mock_resource "aws_iam_role" {
  defaults = { arn = "arn:aws:iam::123456789012:role/mock" }
}
mock_resource "aws_kms_key" {
  defaults = { arn = "arn:aws:kms:eu-west-1:123456789012:key/mock" }
}
mock_resource "aws_iam_openid_connect_provider" {
  defaults = { arn = "arn:aws:iam::123456789012:oidc-provider/mock" }
}
mock_resource "aws_launch_template" {
  defaults = { id = "lt-0123456789abcdef0", latest_version = 1 }
}
mock_resource "aws_eks_cluster" {
  defaults = { identity = [{ oidc = [{ issuer = "https://oidc.example/id/MOCK" }] }] }
}

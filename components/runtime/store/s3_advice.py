"""Advice on failed calls to S3."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

REGION_CODES = {
    "301", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect",
    "TemporaryRedirect",
}  # fmt: skip
CREDENTIAL_CODES = {
    "401", "403", "AccessDenied", "ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidToken",
    "SignatureDoesNotMatch", "TokenRefreshRequired", "UnauthorizedAccess",
}  # fmt: skip
BUCKET = "that the bucket exists"
ENDPOINT = "that the endpoint (AWS_ENDPOINT_URL) is up"
CREDENTIALS = "that the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or a profile) may read and write it"


def what_to_do(error: Exception) -> str:
    """Return what to check or set after a failed call, as the end of a message."""
    from botocore.exceptions import ClientError

    code = str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""
    if code == "NoSuchBucket":
        return "Check the bucket's name and the endpoint (AWS_ENDPOINT_URL), or make the bucket, then run again."
    if code in ("404", "NoSuchKey"):
        return "Check the object's name, then run again."
    if isinstance(error, ClientError) and code in REGION_CODES:
        region = _region(error)
        return f"The bucket lies in another region: set AWS_DEFAULT_REGION{f'={region}' if region else ' to it'}."
    if code in CREDENTIAL_CODES:
        return f"Check {CREDENTIALS}, then run again."
    return f"Check {ENDPOINT}, {BUCKET} and {CREDENTIALS}, then run again."


def _region(error: ClientError) -> str | None:
    """Return the bucket's region from the server's response."""
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    details = error.response.get("Error", {})
    return headers.get("x-amz-bucket-region") or details.get("Region")  # type: ignore[call-overload]

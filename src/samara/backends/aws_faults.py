"""What the errors of AWS and of its library mean. Their own words may quote anything, and are never passed on."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ReadTimeoutError,
    SSLError,
)
from botocore.exceptions import ConnectionError as NotConnected

from samara.backends.base import Absent, Denied, StoreError, Unauthenticated, Unavailable, Unfit
from samara.core.match import shown

_READ = "GetSecretValue"
_UNKNOWN = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "IncompleteSignatureException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "NotAuthorized",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_BUSY = frozenset(
    {
        "InternalFailure",
        "InternalServiceError",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
    }
)
_WITHOUT = (
    "no credentials were found: put access-key-id and secret-access-key into the configuration, "
    "or give the pod a role (IRSA or EKS Pod Identity)"
)


def fault_of_call(error: Exception, document: str, region: str) -> StoreError:
    if isinstance(error, ClientError):
        return _answered(error, document, region)
    if isinstance(error, NoCredentialsError):
        return Unauthenticated(_WITHOUT)
    if isinstance(error, HTTPClientError | NotConnected):
        return Unavailable(f"AWS in {region} {_unreached(error)}")
    if isinstance(error, BotoCoreError):
        # Everything else that the library raises before it sends comes from looking for credentials.
        return Unauthenticated(
            f"the credentials for AWS could not be fetched ({type(error).__name__}): "
            "check the profile, role or token that the environment of the operator names"
        )
    return Unavailable(f"AWS in {region} has sent an answer that cannot be read: check what the url's endpoint is")


def _unreached(error: Exception) -> str:
    if isinstance(error, SSLError):
        return "was reached, but its certificate is not trusted: check the endpoint and AWS_CA_BUNDLE"
    if isinstance(error, ConnectTimeoutError | ReadTimeoutError):
        return "does not answer in time"
    if isinstance(error, EndpointConnectionError):
        return "cannot be reached: check the region, the endpoint, DNS and the way out of the cluster"
    return "has broken off the connection"


def _answered(error: ClientError, document: str, region: str) -> StoreError:
    answer: dict[str, Any] = error.response
    code = str(answer.get("Error", {}).get("Code", ""))
    status = _status(answer)
    if code in _BUSY or status >= 500 or status == 429:
        return Unavailable(f"AWS in {region} is too busy or failing (status {status})", _retry_after(answer))
    if code in _UNKNOWN or status == 401 or error.operation_name != _READ:
        known = f" ({code})" if code in _UNKNOWN else ""
        return Unauthenticated(
            f"AWS in {region} does not accept the credentials{known}: renew them, and check the clock and the role"
        )
    return _about(code, status, shown(document), region)


def _about(code: str, status: int, name: str, region: str) -> StoreError:
    match code:
        case "ResourceNotFoundException":
            return Absent(f"AWS has no secret {name} in {region}, or it has no current value")
        case "AccessDeniedException" | "AccessDenied":
            what = "allow secretsmanager:GetSecretValue on it, and kms:Decrypt on its key"
            return Denied(f"AWS does not let these credentials read {name}: {what}")
        case "DecryptionFailure":
            return Denied(f"AWS cannot decrypt {name}: check that its KMS key is enabled and may be used")
        case "InvalidRequestException":
            # Marked for deletion, which can be taken back for weeks: not the same as not there.
            return Denied(
                f"AWS gives out no value of {name} now: is it marked for deletion? Restore it, or use another"
            )
        case "InvalidParameterException" | "ValidationException":
            return Unfit(f"AWS takes {name} for no name of a secret")
    return Denied(f"AWS has refused to show {name} (status {status})")


def _status(answer: dict[str, Any]) -> int:
    found = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return found if isinstance(found, int) else 0


def _retry_after(answer: dict[str, Any]) -> float | None:
    """In seconds; a date, which nobody sends here, counts as nothing."""
    found = str(answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("retry-after", ""))
    return float(found) if found.isascii() and found.isdigit() and len(found) < 6 else None

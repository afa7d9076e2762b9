"""Object storage through obstore: S3-compatible buckets, Google Cloud Storage, Azure Blob Storage.

Keys come from the environment, as for every other client of a service, and are never printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from assay.errors import InputError

TIMEOUT_S: Final = 20
_SECRET: Final = re.compile(r"(?i)(secret|key|token|credential|signature|authorization)[^\s,;]*")


@dataclass(frozen=True, slots=True)
class Service:
    """A service that has buckets, by the scheme of their addresses."""

    scheme: str
    class_name: str
    """Its class in obstore."""
    keys: str
    """Which variables hold keys and name the server, for hints."""
    server: str
    """The variable that names the server."""
    bucket: str = "bucket"
    """What the service calls a bucket."""

    @property
    def form(self) -> str:
        """How users write an address.

        >>> AZURE.form
        'az://CONTAINER/PREFIX'
        """
        return f"{self.scheme}://{self.bucket.upper()}/PREFIX"


S3: Final = Service(
    "s3",
    "S3Store",
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY hold the keys, AWS_ENDPOINT_URL the server",
    "AWS_ENDPOINT_URL",
)
GOOGLE: Final = Service(
    "gs",
    "GCSStore",
    "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT names the file with the key",
    "GOOGLE_BASE_URL",
)
AZURE: Final = Service(
    "az",
    "AzureStore",
    "AZURE_STORAGE_ACCOUNT_NAME names the account, AZURE_STORAGE_ACCOUNT_KEY or "
    "AZURE_STORAGE_SAS_TOKEN holds the key",
    "AZURE_STORAGE_ENDPOINT",
    bucket="container",
)
SERVICES: Final = {service.scheme: service for service in (S3, GOOGLE, AZURE)}


def bucket_and_prefix(url: str, what: str, service: Service = S3) -> tuple[str, str]:
    """The bucket and prefix of an address; `what` names its use in the error.

    >>> bucket_and_prefix("s3://runs/team/a/", "store")
    ('runs', 'team/a')
    """
    parts = urlsplit(url)
    if parts.scheme != service.scheme or not parts.netloc or "@" in parts.netloc:
        raise InputError(f"{what}: expected {service.form} without keys", service.keys)
    return parts.netloc, parts.path.strip("/")


def open_bucket(
    bucket: str, prefix: str, retries: int = 0, service: Service = S3, **options: Any
) -> Any:
    """A store of obstore; nothing is sent yet."""
    try:
        import obstore.store
    except ImportError:
        raise without_obstore() from None
    chosen: dict[str, Any] = {
        "prefix": prefix,
        "retry_config": {"max_retries": retries, "retry_timeout": timedelta(seconds=TIMEOUT_S)},
        "client_options": {
            "timeout": timedelta(seconds=TIMEOUT_S),
            "connect_timeout": timedelta(seconds=5),
            "allow_http": True,
        },
    }
    return getattr(obstore.store, service.class_name)(bucket, **(chosen | options))


def without_obstore() -> InputError:
    """The error where the package is missing."""
    return InputError(
        "a bucket needs obstore, which is not installed",
        "install it with: pip install 'assay[store]'",
    )


def without_secrets(error: BaseException) -> str:
    """The first line of an error, without what may be a key."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return _SECRET.sub("[hidden]", text)[:300]

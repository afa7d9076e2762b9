"""S3-compatible object storage through obstore.

Keys come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL ...),
as for every other S3 client, and are never printed.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from assay.errors import InputError

TIMEOUT_S: Final = 20
_SECRET: Final = re.compile(r"(?i)(secret|key|token|credential|signature|authorization)[^\s,;]*")


def bucket_and_prefix(url: str, what: str) -> tuple[str, str]:
    """The bucket and prefix of an address; `what` names its use in the error.

    >>> bucket_and_prefix("s3://runs/team/a/", "store")
    ('runs', 'team/a')
    """
    parts = urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc or parts.username is not None:
        raise InputError(
            f"{what}: expected s3://BUCKET/PREFIX without keys",
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY hold the keys, AWS_ENDPOINT_URL the server",
        )
    return parts.netloc, parts.path.strip("/")


def open_bucket(bucket: str, prefix: str, retries: int = 0, **options: Any) -> Any:
    """A store of obstore; nothing is sent yet."""
    try:
        from obstore.store import S3Store
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
    return S3Store(bucket, **(chosen | options))


def without_obstore() -> InputError:
    """The error where the package is missing."""
    return InputError(
        "S3 needs obstore, which is not installed", "install it with: pip install 'assay[store]'"
    )


def put(store: Any, name: str, content: bytes) -> None:
    """Store an object."""
    import obstore

    obstore.put(store, name, content)


def get(store: Any, name: str) -> bytes:
    """The content of an object."""
    import obstore

    return bytes(obstore.get(store, name).bytes())


def without_secrets(error: BaseException) -> str:
    """The first line of an error, without what may be a key."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return _SECRET.sub("[hidden]", text)[:300]

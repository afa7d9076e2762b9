"""S3-compatible object storage through obstore: one Parquet object (zstd) a batch.

Keys come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL ...),
as for every other S3 client, and are never printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from assay.errors import InputError
from assay.observe.telemetry import table
from assay.observe.telemetry.sample import RunHeader, Sample
from assay.observe.telemetry.sinks.sink import Summary

_TIMEOUT_S: Final = 20


class S3:
    """Objects `PREFIX/RUN/samples-N-N.parquet`; a batch is acknowledged by the store's answer.

    An attempt that failed may have stored the object all the same; the next one writes the same
    bytes under the same name, so nothing is doubled.
    """

    batch_s = 30.0
    batch_samples = 10_000

    def __init__(self, url: str, **options: Any) -> None:
        parts = urlsplit(url)
        if parts.scheme != "s3" or not parts.netloc or parts.username is not None:
            raise InputError(
                "sink s3: expected s3://BUCKET/PREFIX without keys",
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY hold the keys, AWS_ENDPOINT_URL the "
                "server",
            )
        self._bucket = parts.netloc
        self._prefix = parts.path.strip("/")
        self.name = f"s3://{self._bucket}/{self._prefix}".rstrip("/")
        self._options = options
        self._store: Any = None
        self._header: RunHeader | None = None
        self._next = 0

    def open(self, header: RunHeader) -> None:
        """Make the client; the store may be reachable later."""
        try:
            from obstore.store import S3Store
        except ImportError:
            raise InputError(
                "S3 needs obstore, which is not installed",
                "install it with: pip install 'assay[fleet]'",
            ) from None
        table.warm_up(header)
        self._header = header
        place = "/".join(filter(None, (self._prefix, header.run)))
        options: dict[str, Any] = {
            "prefix": place,
            # The pump tries again, with pauses of its own, and counts.
            "retry_config": {"max_retries": 0, "retry_timeout": timedelta(seconds=_TIMEOUT_S)},
            "client_options": {
                "timeout": timedelta(seconds=_TIMEOUT_S),
                "connect_timeout": timedelta(seconds=5),
                "allow_http": True,
            },
        }
        options.update(self._options)
        try:
            self._store = S3Store(self._bucket, **options)
        except Exception as error:
            raise InputError(f"sink {self.name}: {_without_secrets(error)}") from None

    def write(self, samples: Sequence[Sample]) -> None:
        """Put one object."""
        import obstore

        assert self._header is not None
        data = table.to_parquet(table.to_table(samples, self._header))
        try:
            obstore.put(
                self._store,
                f"samples-{self._next:06d}-{self._next:06d}.parquet",
                data,
                use_multipart=False,
            )
        except Exception as error:
            raise OSError(_without_secrets(error)) from None
        self._next += 1

    def close(self, summary: Summary) -> None:
        """Put the header with the summary beside the samples."""
        import dataclasses
        import json

        import obstore

        assert self._header is not None
        data = {**dataclasses.asdict(self._header), "summary": dataclasses.asdict(summary)}
        try:
            obstore.put(self._store, "header.json", json.dumps(data).encode(), use_multipart=False)
        except Exception as error:
            raise OSError(_without_secrets(error)) from None


_SECRET: Final = re.compile(r"(?i)(secret|key|token|credential|signature|authorization)[^\s,;]*")


def _without_secrets(error: BaseException) -> str:
    """The first line of an error, without what may be a key."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return _SECRET.sub("[hidden]", text)[:300]

"""S3-compatible object storage through obstore: one Parquet object (zstd) a batch.

Keys come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL ...),
as for every other S3 client, and are never printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.errors import InputError
from assay.object_store import bucket_and_prefix, open_bucket, without_secrets
from assay.observe.telemetry import table
from assay.observe.telemetry.sample import RunHeader, Sample
from assay.observe.telemetry.sinks.sink import Summary


class S3:
    """Objects `PREFIX/RUN/samples-N-N.parquet`; a batch is acknowledged by the store's answer.

    An attempt that failed may have stored the object all the same; the next one writes the same
    bytes under the same name, so nothing is doubled.
    """

    batch_s = 30.0
    batch_samples = 10_000

    def __init__(self, url: str, **options: Any) -> None:
        self._bucket, self._prefix = bucket_and_prefix(url, "sink s3")
        self.name = f"s3://{self._bucket}/{self._prefix}".rstrip("/")
        self._options = options
        self._store: Any = None
        self._header: RunHeader | None = None
        self._next = 0

    def open(self, header: RunHeader) -> None:
        """Make the client; the store may be reachable later."""
        table.warm_up(header)
        self._header = header
        place = "/".join(filter(None, (self._prefix, header.run)))
        try:
            # The pump tries again, with pauses of its own, and counts.
            self._store = open_bucket(self._bucket, place, **self._options)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"sink {self.name}: {without_secrets(error)}") from None

    def write(self, samples: Sequence[Sample]) -> None:
        """Put one object."""
        import obstore

        assert self._header is not None
        data = table.to_parquet(table.of_samples(samples), self._header)
        try:
            obstore.put(
                self._store,
                f"samples-{self._next:06d}-{self._next:06d}.parquet",
                data,
                use_multipart=False,
            )
        except Exception as error:
            raise OSError(without_secrets(error)) from None
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
            raise OSError(without_secrets(error)) from None

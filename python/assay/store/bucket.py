"""A store in an S3-compatible bucket: an object is one conditional PUT, checked by its SHA-256."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from assay.errors import AssayError
from assay.improve.journal.faults import fault_point
from assay.object_store import bucket_and_prefix, open_bucket, without_obstore, without_secrets
from assay.store.backend import RESUMES, Entry, StoreError

_RETRIES: Final = 3
_KEYS: Final = (
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY hold the keys, AWS_ENDPOINT_URL the server"
)
_SERVER: Final = "is its server there? AWS_ENDPOINT_URL names it"
_UNREACHABLE: Final = ("error sending request", "Connection refused", "dns error", "timed out")
_DENIED: Final = ("403", "401", "Forbidden", "AccessDenied", "InvalidAccessKeyId", "Signature")


class Bucket:
    """A prefix of a bucket; keys come from the environment and are never printed."""

    def __init__(self, place: str, **options: Any) -> None:
        self._objects = _obstore()
        bucket, prefix = bucket_and_prefix(place, "store")
        self.name = f"s3://{bucket}/{prefix}".rstrip("/")
        chosen = {"retries": _RETRIES, "checksum_algorithm": "SHA256", **options}
        with self._errors("opened"):
            self._store = open_bucket(bucket, prefix, **chosen)

    def create(self, key: str, content: bytes) -> bool:
        """Put an object with `If-None-Match: *`: the server refuses where there is one."""
        with self._errors("written"):
            try:
                self._objects.put(self._store, key, content, mode="create", use_multipart=False)
            except self._objects.exceptions.AlreadyExistsError:
                return False
            except (self._objects.exceptions.NotSupportedError, NotImplementedError):
                # A server without conditions: what two writers write under a key is the same.
                if self.entry(key) is not None:
                    return False
                self.replace(key, content)
        fault_point("store.named")
        return True

    def replace(self, key: str, content: bytes) -> None:
        """Put an object."""
        with self._errors("written"):
            self._objects.put(self._store, key, content, use_multipart=False)
        fault_point("store.named")

    def read(self, key: str) -> bytes | None:
        """Get an object."""
        with self._errors("read"):
            try:
                return bytes(self._objects.get(self._store, key).bytes())
            except FileNotFoundError as error:
                self._refuse_missing_bucket(error)
                return None

    def entry(self, key: str) -> Entry | None:
        """Head of an object."""
        with self._errors("read"):
            try:
                meta = self._objects.head(self._store, key)
            except FileNotFoundError:
                return None
        return Entry(key, meta["size"], meta["last_modified"].timestamp())

    def entries(self, prefix: str) -> Iterator[Entry]:
        """List objects, a page at a time."""
        with self._errors("read"):
            for page in self._objects.list(self._store, prefix.rstrip("/")):
                for meta in page:
                    yield Entry(meta["path"], meta["size"], meta["last_modified"].timestamp())

    def remove(self, key: str) -> None:
        """Delete an object."""
        with self._errors("written"):
            try:
                self._objects.delete(self._store, key)
            except FileNotFoundError:
                return

    def _refuse_missing_bucket(self, error: Exception) -> None:
        if "NoSuchBucket" in str(error):
            raise StoreError(
                f"store {self.name}: there is no such bucket",
                "make the bucket first; assay store init makes the store in it",
            ) from None

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (AssayError, GeneratorExit):
            raise
        except Exception as error:
            # obstore has no common class for what a network does; none may show a key.
            self._refuse_missing_bucket(error)
            reason, hint = without_secrets(error), RESUMES if what == "written" else _SERVER
            if any(word in str(error) for word in _UNREACHABLE):
                reason = "its server does not answer"
            if any(word in str(error) for word in _DENIED):
                reason, hint = "access denied", _KEYS
            raise StoreError(f"store {self.name} cannot be {what}: {reason}", hint) from None


def _obstore() -> Any:
    try:
        import obstore
        import obstore.exceptions
    except ImportError:
        raise without_obstore() from None
    return obstore

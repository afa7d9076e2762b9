"""A store in a bucket: an object is one conditional PUT; S3 checks its SHA-256 as it arrives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from assay.errors import AssayError
from assay.improve.journal.faults import fault_point
from assay.object_store import (
    S3,
    Service,
    bucket_and_prefix,
    open_bucket,
    without_obstore,
    without_secrets,
)
from assay.store.backend import BOTH_WRITE, RESUMES, Entry, StoreError

_RETRIES: Final = 3
_UNREACHABLE: Final = ("error sending request", "Connection refused", "dns error", "timed out")
_WITHOUT_CONDITIONS: Final = ("501 Not Implemented", "<Code>NotImplemented</Code>")
_UNCONDITIONAL: Final = (
    f"the server of this store has no conditional writes (If-None-Match): {BOTH_WRITE}"
)
# Whole words: an address has the digits of a hash, where 403 may stand too.
_DENIED: Final = (
    *("403 Forbidden", "401 Unauthorized", "AccessDenied", "InvalidAccessKeyId"),
    *("SignatureDoesNotMatch", "AuthenticationFailed"),
)
_NO_BUCKET: Final = ("NoSuchBucket", "ContainerNotFound")
_WITHOUT_KEYS: Final = ("169.254.169.254", "metadata.google.internal", "Account must be specified")
"""Where a client without keys looks for those of the machine it runs on, and what Azure says."""


class Bucket:
    """A prefix of a bucket; keys come from the environment and are never printed."""

    def __init__(self, place: str, service: Service = S3) -> None:
        self._objects = _obstore()
        self._service = service
        bucket, prefix = bucket_and_prefix(place, "store", service)
        self.name = f"{service.scheme}://{bucket}/{prefix}".rstrip("/")
        self.notes: tuple[str, ...] = ()
        options = {"checksum_algorithm": "SHA256"} if service is S3 else {}
        with self._errors("opened"):
            self._store = open_bucket(bucket, prefix, _RETRIES, service, **options)

    def create(self, key: str, content: bytes) -> bool:
        """Put an object with `If-None-Match: *`, at Google generation 0: refused where there is one.

        A server that has no such condition is written to without it, and the note of this store says
        so: an object or a manifest is the same from every writer, a ref but for who it names, and of
        two ids of a store that two make at once the last counts.
        """
        with self._errors("written"):
            if not self.notes:
                try:
                    self._objects.put(self._store, key, content, mode="create", use_multipart=False)
                except self._objects.exceptions.AlreadyExistsError:
                    return False
                except Exception as error:
                    if not self._has_no_conditions(error):
                        raise
                    self.notes = (_UNCONDITIONAL,)
                else:
                    fault_point("store.named")
                    return True
            if self.entry(key) is not None:
                return False
            self.replace(key, content)
        return True

    def _has_no_conditions(self, error: Exception) -> bool:
        """Whether a server refused the condition, which obstore tells by a status, not by a class."""
        if isinstance(error, (self._objects.exceptions.NotSupportedError, NotImplementedError)):
            return True
        return any(word in str(error) for word in _WITHOUT_CONDITIONS)

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
        if any(word in str(error) for word in _NO_BUCKET):
            called = self._service.bucket
            raise StoreError(
                f"store {self.name}: there is no such {called}",
                f"make the {called} first; assay store init makes the store in it",
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
            reason, hint = self._explained(error, what)
            raise StoreError(f"store {self.name} cannot be {what}: {reason}", hint) from None

    def _explained(self, error: Exception, what: str) -> tuple[str, str]:
        """Why something failed, and what to do."""
        text = str(error)
        if any(word in text for word in _WITHOUT_KEYS):
            return "no keys: expected some in the environment, got none", self._service.keys
        if any(word in text for word in _DENIED):
            return "access denied", self._service.keys
        server = f"is its server there? {self._service.server} names it"
        hint = {"written": RESUMES, "opened": self._service.keys}.get(what, server)
        if any(word in text for word in _UNREACHABLE):
            return "its server does not answer", hint
        return without_secrets(error), hint


def _obstore() -> Any:
    try:
        import obstore
        import obstore.exceptions
    except ImportError:
        raise without_obstore() from None
    return obstore

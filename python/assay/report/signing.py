"""Signatures of reports: Ed25519 over the head of the journal, which everything else hangs on.

The hash of a record covers all records before it, and the `report` record the SHA-256 of every file
that claims rest on. A folder that is made anew as a whole can be chained anew, but not signed.
"""

from __future__ import annotations

import base64
import binascii
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.answers import Answer
from assay.errors import AssayError, CheckFailedError, InputError
from assay.files import read_json, read_text
from assay.improve.journal.chain import canonical
from assay.improve.journal.journal import JournalReading
from assay.improve.journal.run_folder import RunFolder
from assay.report.run_files import SIGNATURE

FORMAT: Final = 2
_ALONE: Final = 1
"""The format before: one signature, without a list."""
_ALGORITHM: Final = "ed25519"
_DOMAIN: Final = b"assay report signature 1\n"
"""A signature of something else is never one of a report."""
_MOST_BYTES: Final = 1 << 16
SIGN_ANEW: Final = f"move {SIGNATURE} away to sign without the signatures in it"
"""The hint where report.sig is in the way of another signature."""
_HOW: Final = "assay store key FILE makes one, as openssl genpkey -algorithm ed25519 does"


@dataclass(frozen=True, kw_only=True)
class KeyPair(Answer):
    """Where a new key is; the private one signs, the public one checks and may be passed on."""

    private: str
    public: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Signature:
    """What a key has signed; report.sig holds one of each signer."""

    run: str
    records: int
    """How many records of the journal it covers."""
    head: str
    """The hash of the last of them."""
    public_key: bytes
    signature: bytes

    @property
    def fingerprint(self) -> str:
        """A short name of the key that signed."""
        return fingerprint_of(self.public_key)

    def signed(self) -> bytes:
        """The bytes that are signed."""
        return _signed(self.run, self.records, self.head)

    def to_data(self) -> dict[str, Any]:
        """Its entry of report.sig."""
        return {
            "run": self.run,
            "records": self.records,
            "head": self.head,
            "public_key": base64.b64encode(self.public_key).decode(),
            "signature": base64.b64encode(self.signature).decode(),
        }


def make_key(path: Path) -> KeyPair:
    """Write a new private key, readable by its owner alone, and its public key beside it."""
    crypto = _crypto()
    private = crypto.ed25519.Ed25519PrivateKey.generate()
    encoding, formats = crypto.serialization.Encoding.PEM, crypto.serialization
    secret = private.private_bytes(encoding, formats.PrivateFormat.PKCS8, formats.NoEncryption())
    public = private.public_key().public_bytes(encoding, formats.PublicFormat.SubjectPublicKeyInfo)
    beside = path.with_name(f"{path.name}.pub")
    for target, content, mode in ((path, secret, 0o600), (beside, public, 0o644)):
        _write_new(target, content, mode)
    raw = private.public_key().public_bytes_raw()
    return KeyPair(private=str(path), public=str(beside), fingerprint=fingerprint_of(raw))


def read_private_key(path: Path) -> Any:
    """An Ed25519 key of a PEM file, without a password."""
    crypto = _crypto()
    text = read_text("key", path, _MOST_BYTES)
    try:
        key = crypto.serialization.load_pem_private_key(text.encode(), None)
    except TypeError:
        raise InputError(
            f"key {path}: expected one without a password, got an encrypted one",
            f"openssl pkey -in {path.name} -out PLAIN writes one",
        ) from None
    except (ValueError, crypto.UnsupportedAlgorithm):
        raise InputError(f"key {path}: expected a private key in PEM", _HOW) from None
    if not isinstance(key, crypto.ed25519.Ed25519PrivateKey):
        raise InputError(
            f"key {path}: expected Ed25519, got {type(key).__name__.lstrip('_')}", _HOW
        )
    return key


def read_public_key(path: Path) -> Any:
    """An Ed25519 public key of a PEM file."""
    crypto = _crypto()
    text = read_text("key", path, _MOST_BYTES)
    if "PRIVATE KEY" in text:
        # Taken here, it would be copied to every machine that verifies, and each could sign.
        raise InputError(
            f"key {path}: expected a public key, got a private one",
            f"name {path.name}.pub, and leave the private key where reports are signed; "
            f"openssl pkey -in {path.name} -pubout writes the public one",
        )
    try:
        key = crypto.serialization.load_pem_public_key(text.encode())
    except (ValueError, crypto.UnsupportedAlgorithm):
        raise InputError(f"key {path}: expected a public key in PEM", _HOW) from None
    if not isinstance(key, crypto.ed25519.Ed25519PublicKey):
        raise InputError(
            f"key {path}: expected Ed25519, got {type(key).__name__.lstrip('_')}", _HOW
        )
    return key


def write_signature(folder: Path, reading: JournalReading, key: Any) -> Signature:
    """Sign the journal of a run as it is now, beside other signers; the caller has verified the run."""
    if reading.last("report") is None and not reading.of("replica"):
        raise InputError(
            f"run {folder.name}: expected a report to sign, got none",
            "a run writes its report at its end",
        )
    records, head = len(reading.records), reading.head
    own = key.public_key().public_bytes_raw()
    signature = Signature(
        folder.name, records, head, own, key.sign(_signed(folder.name, records, head))
    )
    with _alone(folder):
        try:
            others = [other for other in read_signatures(folder) if other.public_key != own]
        except AssayError as error:
            # It may have signatures of others, which only they can give again.
            raise InputError(error.message, SIGN_ANEW) from None
        listed = [each.to_data() for each in (*others, signature)]
        data = {"format": FORMAT, "algorithm": _ALGORITHM, "signatures": listed}
        RunFolder(folder).write_json(SIGNATURE, data, 1)
    return signature


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """A block that one signer of a run at a time is in, so that none takes the signature of another away."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def read_signatures(folder: Path) -> list[Signature]:
    """The signatures of a run, one of each signer; none where it is not signed."""
    path = folder / SIGNATURE
    if not path.is_file():
        return []
    return _signatures(read_json("signature", path, _MOST_BYTES), str(path))


def is_signature(content: bytes) -> bool:
    """Whether the bytes of a report.sig are signatures, each by the key that it names."""
    try:
        signatures = _signatures(json.loads(content[:_MOST_BYTES]), SIGNATURE)
    except (AssayError, ValueError, RecursionError):
        return False
    return bool(signatures) and all(_is_by_its_key(each) for each in signatures)


def _signatures(data: Any, what: str) -> list[Signature]:
    try:
        if data["format"] not in (_ALONE, FORMAT) or data["algorithm"] != _ALGORITHM:
            got = f"{data['format']} of {data['algorithm']}"
            raise ValueError(f"expected format {_ALONE} or {FORMAT} of {_ALGORITHM}, got {got}")
        listed = [data] if data["format"] == _ALONE else data["signatures"]
        return [
            Signature(
                str(each["run"]),
                int(each["records"]),
                str(each["head"]),
                base64.b64decode(each["public_key"], validate=True),
                base64.b64decode(each["signature"], validate=True),
            )
            for each in listed
        ]
    except (KeyError, TypeError, ValueError, OverflowError, binascii.Error) as error:
        raise InputError(f"signature {what} cannot be read: {error!r}") from None


def _is_by_its_key(signature: Signature) -> bool:
    """Whether the key that a signature names has signed it; without `cryptography` it counts as such."""
    try:
        crypto = _crypto()
    except InputError:
        return True
    try:
        key = crypto.ed25519.Ed25519PublicKey.from_public_bytes(signature.public_key)
        key.verify(signature.signature, signature.signed())
    except (ValueError, crypto.InvalidSignature):
        return False
    return True


def own_problem(folder: Path, reading: JournalReading) -> str:
    """What is wrong with report.sig, by the keys that it names; empty where nothing is, or there is none.

    Every signature must be by the key that it names and of this journal. Whether the report was
    written since is asked for a key that is trusted.
    """
    try:
        signatures = read_signatures(folder)
    except AssayError as error:
        return f"{SIGNATURE} is not a signature: {error.message}"
    if not signatures and (folder / SIGNATURE).is_file():
        return f"{SIGNATURE} is not a signature: expected one or more, got none"
    problems = (_problem(signature, reading) for signature in signatures)
    return next(filter(None, problems), "")


def _problem(signature: Signature, reading: JournalReading) -> str:
    name = signature.fingerprint
    if not _is_by_its_key(signature):
        return f"it is not what key {name} has signed"
    covered = reading.records[: max(signature.records, 0)]
    if len(covered) < signature.records or not covered or covered[-1].hash != signature.head:
        return f"the journal is not the one that key {name} has signed"
    return ""


def signature_problem(folder: Path, reading: JournalReading, key: Any) -> tuple[str, int]:
    """What is wrong with the signature of a key that is trusted, empty where it holds; records it covers."""
    try:
        signatures = read_signatures(folder)
    except AssayError as error:
        return error.message, 0
    if not signatures:
        return "expected a signature, got none", 0
    trusted = key.public_bytes_raw()
    expected = fingerprint_of(trusted)
    signature = next((each for each in signatures if each.public_key == trusted), None)
    if signature is None:
        got = ", ".join(each.fingerprint for each in signatures)
        return f"expected the signature of key {expected}, got that of {got}", 0
    if problem := _problem(signature, reading):
        return problem, 0
    report = reading.last("report")
    if report is not None and report.number >= signature.records:
        return "the report was written again after it was signed", 0
    return "", signature.records


def refuse_unverified(run: str, failures: list[str]) -> None:
    """A report that does not hold is not signed."""
    if failures:
        raise CheckFailedError(
            f"run {run} is not verified and is not signed: {failures[0]}",
            "assay verify-report lists what failed",
        )


def fingerprint_of(public_key: bytes) -> str:
    """A short name of a key: the start of the SHA-256 of its bytes.

    >>> fingerprint_of(bytes(32))
    'ed25519:66687aadf862bd77'
    """
    return f"ed25519:{hashlib.sha256(public_key).hexdigest()[:16]}"


def _signed(run: str, records: int, head: str) -> bytes:
    return _DOMAIN + canonical({"head": head, "records": records, "run": run}).encode()


def _write_new(path: Path, content: bytes, mode: int) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError:
        raise InputError(f"{path} exists: a key is not overwritten", "name another file") from None
    with os.fdopen(handle, "wb") as file:
        file.write(content)


@dataclass(frozen=True, slots=True)
class _Crypto:
    """The parts of the package cryptography that are used here."""

    ed25519: Any
    serialization: Any
    InvalidSignature: Any
    UnsupportedAlgorithm: Any


def _crypto() -> _Crypto:
    try:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise InputError(
            "signatures need cryptography, which is not installed",
            "install it with: pip install 'assay[store]'",
        ) from None
    return _Crypto(ed25519, serialization, InvalidSignature, UnsupportedAlgorithm)

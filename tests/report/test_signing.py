"""Signed reports: a folder that was made anew as a whole is refused by a key."""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from assay.errors import AssayError, CheckFailedError, InputError
from assay.improve.journal import journal as journals
from assay.improve.journal.chain import GENESIS, read_chain, to_line
from assay.improve.loop.record import RunRecord
from assay.report import signing
from assay.report.signing import (
    Signature,
    is_signature,
    make_key,
    read_private_key,
    read_public_key,
    read_signatures,
    write_signature,
)
from assay.report.stored import rewrite_report, sign_report
from assay.report.verify import verify, verify_report

Finished = tuple[Path, RunRecord]

pytest.importorskip("cryptography")


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    made = make_key(tmp_path / "key")
    return Path(made.private), Path(made.public)


@pytest.fixture
def run(finished: Finished, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished[0], tmp_path / finished[0].name))


def chain_anew(folder: Path, change: Callable[[dict], dict] = lambda data: data) -> None:  # type: ignore[type-arg]
    """Write the journal again with other data and right hashes, as a forger would."""
    records = read_chain((folder / "journal.jsonl").read_bytes()).records
    previous, lines = GENESIS, []
    for record in records:
        data = change(dict(record.data)) if record.kind == "started" else record.data
        previous, line = to_line(previous, record.number, record.at, record.kind, data)
        lines.append(line)
    (folder / "journal.jsonl").write_bytes(b"".join(lines))
    (folder / "journal.head").write_text(f"{len(records):012d} {previous}\n")


def test_a_signed_run_verifies_with_its_key(run: Path, keys: tuple[Path, Path]) -> None:
    sign_report(run, read_private_key(keys[0]))
    verification = verify_report(str(run), keys[1])
    assert verification.is_verified
    assert verification.problem is None
    assert verification.extent["signature"] == 1
    assert not any("not covered" in note for note in verification.notes)
    # Without a key everything is checked as before.
    assert verify_report(str(run)).is_verified


def test_a_folder_that_was_chained_anew_is_refused(run: Path, keys: tuple[Path, Path]) -> None:
    sign_report(run, read_private_key(keys[0]))
    signature = (run / "report.sig").read_bytes()
    chain_anew(run, lambda data: {**data, "budget_s": 1.0})
    # Chain and hashes of the forged journal are right: what fails without a key is the report's
    # note of the head, which a forger writes anew too.
    assert next(check for check in verify(run).checks if check.name == "journal").passed
    rechained = verify_report(str(run), keys[1])
    failed = {check.name: check.statement for check in rechained.failures}
    assert "is not the one that key" in failed["signature"]
    assert (run / "report.sig").read_bytes() == signature


def test_a_report_written_again_as_a_whole_is_refused(run: Path, keys: tuple[Path, Path]) -> None:
    sign_report(run, read_private_key(keys[0]))
    rewrite_report(str(run))
    assert verify_report(str(run)).is_verified
    (failure,) = verify_report(str(run), keys[1]).failures
    assert failure.statement == "the report was written again after it was signed"
    sign_report(run, read_private_key(keys[0]))
    assert verify_report(str(run), keys[1]).is_verified


def test_an_unsigned_run_is_refused_by_a_key(run: Path, keys: tuple[Path, Path]) -> None:
    verification = verify_report(str(run), keys[1])
    assert isinstance(verification.problem, CheckFailedError)
    assert verification.failures[0].statement == "expected a signature, got none"


def test_the_key_of_somebody_else_is_refused(
    run: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    other = make_key(tmp_path / "other")
    sign_report(run, read_private_key(Path(other.private)))
    (failure,) = verify_report(str(run), keys[1]).failures
    assert failure.name == "signature"
    assert other.fingerprint in failure.statement


def test_several_sign_and_each_is_checked(
    run: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    other, third = (make_key(tmp_path / name) for name in ("other", "third"))
    for private in (keys[0], Path(other.private), keys[0]):
        sign_report(run, read_private_key(private))
    assert len(read_signatures(run)) == 2
    both = verify_report(str(run), [keys[1], other.public])
    assert both.is_verified
    assert both.extent["signatures"] == 2
    for public in (keys[1], other.public):
        assert verify_report(str(run), public).extent["signature"] == 1
    (failure,) = verify_report(str(run), [keys[1], third.public]).failures
    assert failure.statement.startswith(f"expected the signature of key {third.fingerprint}, got")
    # One key that is trusted twice has one signature.
    assert verify_report(str(run), [keys[1], keys[1]]).extent["signature"] == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "expected JSON"), ('{"format": 3, "algorithm": "ed25519"}', "expected format 1 or 2"),
     (" " * 70_000, "expected at most 65,536 bytes")],
)  # fmt: skip
def test_signatures_that_cannot_be_read_are_not_overwritten(
    run: Path, keys: tuple[Path, Path], content: str, said: str
) -> None:
    (run / "report.sig").write_text(content)
    with pytest.raises(InputError, match=said) as caught:
        sign_report(run, read_private_key(keys[0]))
    assert "move report.sig away" in str(caught.value.hint)
    assert (run / "report.sig").read_text() == content
    (run / "report.sig").unlink()
    sign_report(run, read_private_key(keys[0]))
    assert verify_report(str(run), keys[1]).is_verified


@pytest.mark.parametrize(
    "content", ["garbage", "{}", '{"format": 2, "algorithm": "ed25519", "signatures": []}', ""]
)
def test_what_is_no_signature_counts_as_none_and_fails_without_a_key_too(
    run: Path, keys: tuple[Path, Path], content: str
) -> None:
    (run / "report.sig").write_text(content)
    for key in (None, keys[1]):
        (failure,) = verify_report(str(run), key).failures
        assert failure.name == "signature"
        assert failure.statement.startswith("report.sig is not a signature: ")
    assert not is_signature(content.encode())


def test_a_signature_by_another_key_than_it_names_is_none(
    run: Path, keys: tuple[Path, Path]
) -> None:
    sign_report(run, read_private_key(keys[0]))
    content = (run / "report.sig").read_bytes()
    assert is_signature(content)
    data = json.loads(content)
    data["signatures"][0]["records"] -= 1
    assert not is_signature(json.dumps(data).encode())
    data["signatures"][0]["records"] = 1e400
    assert not is_signature(json.dumps(data).encode())


def test_a_private_key_does_not_check(run: Path, keys: tuple[Path, Path]) -> None:
    sign_report(run, read_private_key(keys[0]))
    with pytest.raises(InputError, match="expected a public key, got a private one") as error:
        verify_report(str(run), keys[0])
    assert str(error.value.hint).startswith("name key.pub, ")


def test_two_who_sign_at_once_both_have_signed(
    run: Path, keys: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_key(tmp_path / "other")
    reading = journals.read(run)

    def slow(folder: Path) -> list[Signature]:
        """Reads, and lets the other signer read the same where it may."""
        signatures = read_signatures(folder)
        time.sleep(0.2)
        return signatures

    monkeypatch.setattr(signing, "read_signatures", slow)
    with ThreadPoolExecutor() as pool:
        list(
            pool.map(
                lambda private: write_signature(run, reading, read_private_key(private)),
                (keys[0], Path(other.private)),
            )
        )
    assert len(read_signatures(run)) == 2


def test_a_signature_of_the_format_before_holds(run: Path, keys: tuple[Path, Path]) -> None:
    sign_report(run, read_private_key(keys[0]))
    path = run / "report.sig"
    (only,) = json.loads(path.read_text())["signatures"]
    path.write_text(json.dumps({"format": 1, "algorithm": "ed25519", **only}))
    assert verify_report(str(run), keys[1]).is_verified


def test_a_signature_under_the_name_of_another_key_is_refused(
    run: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    sign_report(run, read_private_key(Path(make_key(tmp_path / "other").private)))
    path = run / "report.sig"
    data = json.loads(path.read_text())
    own = read_public_key(keys[1]).public_bytes_raw()
    data["signatures"][0]["public_key"] = base64.b64encode(own).decode()
    path.write_text(json.dumps(data))
    (failure,) = verify_report(str(run), keys[1]).failures
    assert failure.statement.startswith("it is not what key")


@pytest.mark.parametrize(
    ("before", "after"),
    [('"head": "', '"head": "0'), ('"records": ', '"records": 9'), ('"run": "', '"run": "x'),
     ('"signature": "', '"signature": "AA'), ("{", "["), ('"format": 2', '"format": 3')],
)  # fmt: skip
def test_an_edited_signature_is_refused(
    run: Path, keys: tuple[Path, Path], before: str, after: str
) -> None:
    sign_report(run, read_private_key(keys[0]))
    path = run / "report.sig"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    assert [check.name for check in verify_report(str(run), keys[1]).failures] == ["signature"]


def test_what_does_not_verify_is_not_signed(run: Path, keys: tuple[Path, Path]) -> None:
    (run / "plan.json").write_text("{}")
    with pytest.raises(CheckFailedError, match=r"is not signed: plan\.json"):
        sign_report(run, read_private_key(keys[0]))
    assert not (run / "report.sig").exists()


def test_a_key_of_openssl_signs(run: Path, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    secret, public = tmp_path / "o.pem", tmp_path / "o.pub"
    for words in (
        ("genpkey", "-algorithm", "ed25519", "-out", str(secret)),
        ("pkey", "-in", str(secret), "-pubout", "-out", str(public)),
    ):
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    sign_report(run, read_private_key(secret))
    assert verify_report(str(run), public).is_verified


def test_a_private_key_is_its_owners_alone_and_is_not_overwritten(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(InputError, match="a key is not overwritten"):
        make_key(tmp_path / "key")


RSA_HEADER = (
    "-----BEGIN PUBLIC KEY-----\nMFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAL\n-----END PUBLIC KEY-----\n"
)


@pytest.mark.parametrize("text", ["", "no key", RSA_HEADER, "\x00" * 70_000])
def test_what_is_no_key_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    for read in (read_private_key, read_public_key):
        with pytest.raises(InputError) as error:
            read(path)
        assert "\n" not in error.value.message
    with pytest.raises(AssayError):
        read_private_key(tmp_path / "none")

"""Fetches what a repository or an address names, and records it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from assay.engine.loading import hub
from assay.engine.loading.downloading import Expected, download, opened, status_error
from assay.engine.loading.hub import FileAddress, Remote, Repository
from assay.engine.loading.hub_files import select
from assay.engine.loading.pull_folder import Progress, PullError, check_space, disk_full, locked
from assay.engine.loading.sources import is_stored
from assay.errors import InputError
from assay.http_client import is_success, read_body
from assay.paths import write_atomically


@dataclass(frozen=True, slots=True)
class Kept:
    """What was fetched."""

    path: Path
    hashes: dict[str, str]
    license: str | None
    revision: str | None


def pull(remote: Remote, progress: Progress) -> Kept:
    """Fetch the files of a model that are not there yet; those that are stay as they are."""
    folder = remote.folder
    try:
        with locked(folder):
            if isinstance(remote, FileAddress):
                return _pull_file(remote, progress)
            return _pull_repository(remote, progress)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise disk_full(folder, remote.command, 0) from None


def _pull_file(remote: FileAddress, progress: Progress) -> Kept:
    name = remote.file_name
    entry = hub.read_record(remote.folder).get(remote.key)
    if entry is None or hub.stored_path(remote) is None:
        progress(f"downloading {remote.url}")
        sha256, nbytes = download(remote.url, remote.folder / name, Expected(), progress)
        entry = {"opens": name, "files": {name: {"nbytes": nbytes, "sha256": sha256}}}
        _record(remote, entry)
    return Kept(remote.folder / name, _hashes(entry), None, None)


def _pull_repository(remote: Repository, progress: Progress) -> Kept:
    token = os.environ.get(hub.TOKEN_VARIABLE)
    listing = _listing(remote, token)
    revision = str(listing.get("sha") or remote.revision)
    stated: dict[str, dict[str, Any]] = {
        sibling["rfilename"]: sibling
        for sibling in listing.get("siblings") or ()
        if isinstance(sibling, dict) and _is_plain(sibling.get("rfilename"))
    }
    chosen = select(remote.name, sorted(stated), remote.file)
    if chosen.note:
        progress(f"{remote.name}: {chosen.note}")
    expected = {name: _expected(stated[name]) for name in chosen.files}
    check_space(remote.folder, sum(each.nbytes or 0 for each in expected.values()))
    known = hub.read_record(remote.folder).get(remote.key) or {}
    before = known.get("files", {}) if known.get("revision") == revision else {}
    files: dict[str, Any] = {}
    for number, (name, each) in enumerate(expected.items(), 1):
        path = remote.folder / name
        if name in before and is_stored(path, before[name]["nbytes"]):
            files[name] = before[name]
            continue
        size = "" if each.nbytes is None else f", {each.nbytes / 1e6:,.1f} MB"
        progress(f"downloading {name}, {number} of {len(expected)} files{size}")
        sha256, nbytes = download(remote.address(revision, name), path, each, progress, token=token)
        files[name] = {"nbytes": nbytes, "sha256": sha256}
        _record(
            remote,
            {
                "opens": chosen.opens,
                "revision": revision,
                "files": files | {left: {"nbytes": -1} for left in expected if left not in files},
            },
        )
    license_name = _license(listing)
    entry = {"opens": chosen.opens, "revision": revision, "license": license_name, "files": files}
    _record(remote, entry)
    path = remote.folder / chosen.opens if chosen.opens else remote.folder
    return Kept(path, _hashes(entry), license_name, revision)


def _listing(remote: Repository, token: str | None) -> dict[str, Any]:
    with opened(remote.listing, {"Accept": "application/json"}, token=token) as answer:
        if answer.status == 404:
            raise PullError(
                f'repository "{remote.name}": expected it at {hub.endpoint()}, got none',
                f"check the name; a private one needs {hub.TOKEN_VARIABLE}, another hub "
                f"{hub.ENDPOINT_VARIABLE}",
            )
        if not is_success(answer):
            raise status_error(remote.listing, answer.status)
        listing = json.loads(read_body(answer))
    if not isinstance(listing, dict):
        raise InputError(
            f"{remote.listing}: expected a JSON object, got a {type(listing).__name__}"
        )
    return listing


def _expected(sibling: Mapping[str, Any]) -> Expected:
    large = sibling.get("lfs")
    if isinstance(large, dict):
        return Expected(large.get("size", sibling.get("size")), large.get("sha256"))
    return Expected(sibling.get("size"), git_blob=sibling.get("blobId"))


def _is_plain(name: object) -> bool:
    """Whether a file's name stays below the folder: a hub is not trusted."""
    if not isinstance(name, str):
        return False
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and not name.startswith(".")


def _license(listing: Mapping[str, Any]) -> str | None:
    card = listing.get("cardData")
    if isinstance(card, dict):
        stated = card.get("license_name") or card.get("license")
        if isinstance(stated, str):
            link = card.get("license_link")
            return f"{stated} ({link})" if isinstance(link, str) else stated
    return None


def _hashes(entry: Mapping[str, Any]) -> dict[str, str]:
    return {name: file["sha256"] for name, file in entry["files"].items()}


def _record(remote: Remote, entry: Mapping[str, Any]) -> None:
    record = hub.read_record(remote.folder) | {remote.key: entry}
    write_atomically(remote.folder / hub.RECORD, json.dumps(record, indent=2).encode())

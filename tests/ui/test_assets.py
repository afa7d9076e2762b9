"""The committed build of the pages is that of the sources, fits its budget and holds no inline code."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from assay.ui.assets import FOLDER, read_assets

ROOT = Path(__file__).parents[2]
BUDGET = 900_000


def sources_digest() -> str:
    """The digest of `web/build-app.mjs` over what the pages are built from."""
    names = [
        "crates/assay-tape-wasm/Cargo.lock",
        "crates/assay-tape-wasm/Cargo.toml",
        *_below("crates/assay-tape-wasm/src"),
        *_below("crates/assay-tape/src"),
        *_below("web/app"),
        *_below("web/src"),
        "python/assay/observe/timeline/palette.json",
        "web/build-app.mjs",
        "web/digest.mjs",
        "web/package-lock.json",
        "web/vite.config.ts",
    ]
    digest = hashlib.sha256()
    for name in names:
        content = (ROOT / name).read_bytes()
        digest.update(f"{name}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()


def _below(folder: str) -> list[str]:
    # JavaScript sorts by UTF-16 code units, which is the order of ASCII names.
    return sorted(
        path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()
    )


def test_the_committed_pages_are_built_from_the_sources() -> None:
    record = json.loads((FOLDER / "build.json").read_text("utf-8"))
    assert record["sources"] == sources_digest(), "run make web"
    files = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    assert files == {*record["gzip"], "build.json"}


def test_the_pages_fit_their_budget() -> None:
    sizes = {
        path.relative_to(FOLDER).as_posix(): len(gzip.compress(path.read_bytes(), 9, mtime=0))
        for path in FOLDER.rglob("*")
        if path.is_file() and path.name != "build.json"
    }
    assert sum(sizes.values()) <= BUDGET


@pytest.mark.slow
def test_the_committed_pages_are_what_a_build_makes(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None or not (ROOT / "web" / "node_modules" / "vite").is_dir():
        pytest.skip("no Node, or no packages in web/node_modules: npm ci in web/ installs them")
    if not _builds_for_browsers():
        pytest.skip("no Rust for WebAssembly: rustup target add wasm32-unknown-unknown")
    target = tmp_path / "assets"
    subprocess.run([node, str(ROOT / "web" / "build-app.mjs"), str(target)], check=True)
    for path in FOLDER.iterdir():
        # The bytes of the evaluator, and so their size, are those of one version of the compiler.
        if path.name not in ("assay_tape.wasm", "build.json"):
            assert (target / path.name).read_bytes() == path.read_bytes(), path.name
    assert (target / "assay_tape.wasm").read_bytes().startswith(b"\0asm")


def _builds_for_browsers() -> bool:
    rustc = shutil.which("rustc")
    if rustc is None:
        return False
    words = [rustc, "--print", "target-libdir", "--target", "wasm32-unknown-unknown"]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    return found.returncode == 0 and Path(found.stdout.strip()).is_dir()


def test_the_page_has_no_inline_code_and_loads_nothing_from_elsewhere() -> None:
    page = read_assets()["/"].content.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)
    assert not re.search(r"(src|href)=\"(https?:)?//", page)

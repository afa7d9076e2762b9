"""What a release is made of: licenses and sources of crates, the bill of materials, the checks of a wheel."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import build_wheel
import generate_sbom


@pytest.fixture(scope="module")
def metadata(root: Path) -> dict[str, Any]:
    if shutil.which("cargo") is None:
        pytest.skip("no cargo")
    return generate_sbom.cargo_metadata(root)


@pytest.fixture(scope="module")
def deny(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "deny.toml").read_text("utf-8"))


def allowed(expression: str, licenses: set[str]) -> bool:
    """Whether an SPDX expression can be met: one of alternatives, all of what is joined."""
    expression = expression.replace("/", " OR ").strip()
    while inner := re.search(r"\(([^()]*)\)", expression):
        meets = allowed(inner[1], licenses)
        expression = expression.replace(inner[0], "yes" if meets else "no")
    alternatives = expression.split(" OR ")
    return any(
        all(
            part.strip() == "yes" or part.strip() in licenses for part in alternative.split(" AND ")
        )
        for alternative in alternatives
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MIT/Apache-2.0", True),
        ("GPL-3.0-only OR MIT", True),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", False),
        ("(GPL-3.0-only OR MIT) AND MIT", True),
    ],
)
def test_expressions_of_licenses_are_read(expression: str, expected: bool) -> None:
    assert allowed(expression, {"MIT"}) is expected


def test_crates_have_licenses_and_sources_that_are_allowed(
    metadata: dict[str, Any], deny: dict[str, Any]
) -> None:
    """What `cargo deny check licenses bans sources` checks; every license in the list is needed."""
    licenses = set(deny["licenses"]["allow"])
    sources = {None, *(f"registry+{address}" for address in deny["sources"]["allow-registry"])}
    banned = {crate["name"] for crate in deny["bans"]["deny"]}
    crates = metadata["packages"]
    assert len(crates) > 50
    assert [c["name"] for c in crates if not allowed(c["license"] or "", licenses)] == []
    assert [c["name"] for c in crates if c["source"] not in sources] == []
    assert [c["name"] for c in crates if c["name"] in banned] == []
    # Folders have no version: allowed in crates that are not published.
    wild = {c["name"] for c in crates if any(d["req"] == "*" for d in c["dependencies"])}
    assert deny["bans"]["wildcards"] == "deny"
    assert [c["name"] for c in crates if c["name"] in wild and c["publish"] != []] == []
    stated = " ".join(c["license"] for c in crates)
    assert [name for name in licenses if name not in stated] == []


def test_bill_of_materials_has_every_linked_crate_with_its_checksum(
    root: Path, metadata: dict[str, Any]
) -> None:
    lock = tomllib.loads((root / "Cargo.lock").read_text("utf-8"))
    components = {c["name"]: c for c in generate_sbom.crates(metadata, lock)}
    assert {"assay-python", "assay-inject", "pyo3", "memmap2", "libloading"} <= components.keys()
    # Of tests only: in no library.
    assert not {"proptest", "loom", "allocation-counter"} & components.keys()
    for name, component in components.items():
        [row] = [
            r for r in lock["package"] if (r["name"], r["version"]) == (name, component["version"])
        ]
        assert [h["content"] for h in component.get("hashes", [])] == list(
            filter(None, [row.get("checksum")])
        )
        assert component["licenses"]


def test_bill_of_materials_is_the_same_twice_and_names_no_folder(root: Path) -> None:
    document = generate_sbom.bill(root)
    assert document == generate_sbom.bill(root)
    text = json.dumps(document)
    assert str(root) not in text
    assert {"pkg:pypi/numpy", "pkg:pypi/tokenizers"} <= {
        component["purl"].partition("@")[0] for component in document["components"]
    }
    assert len({c["bom-ref"] for c in document["components"]}) == len(document["components"])


def wheel(folder: Path, name: str, libraries: dict[str, bytes]) -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for library, content in libraries.items():
            archive.writestr(library, content)
    return path


LIBRARIES = {
    "assay/_native.abi3.so": b"GLIBC_2.17\0GLIBC_2.28\0",
    "assay/libassay_inject.so": b"GLIBC_2.3\0",
}


def test_wheel_that_keeps_its_tag_is_described(tmp_path: Path) -> None:
    path = wheel(tmp_path, "assay-1-cp311-abi3-manylinux_2_28_x86_64.whl", LIBRARIES)
    assert build_wheel.check(path) == "0.0 MB, glibc 2.28 or later"


@pytest.mark.parametrize(
    ("libraries", "expected"),
    [
        ({**LIBRARIES, "assay/libassay_inject.so": b"GLIBC_2.34"}, r"needs glibc 2\.34"),
        ({"assay/_native.abi3.so": b""}, "expected two libraries"),
        ({**LIBRARIES, "large": bytes(100)}, "expected at most 0 MB"),
    ],
)
def test_wheel_that_is_large_or_needs_more_than_its_tag_is_refused(
    tmp_path: Path, libraries: dict[str, bytes], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "large" in libraries:
        monkeypatch.setattr(build_wheel, "MOST_BYTES", 100)
    path = wheel(tmp_path, "assay-1-cp311-abi3-manylinux_2_28_x86_64.whl", libraries)
    with pytest.raises(build_wheel.ReleaseError, match=expected):
        build_wheel.check(path)


def test_build_names_neither_time_nor_folders(tmp_path: Path) -> None:
    given = {"SOURCE_DATE_EPOCH": "7", "RUSTFLAGS": "-C x", "CARGO_TARGET_DIR": "/t"}
    made = build_wheel.reproducible(given, tmp_path)
    assert made["SOURCE_DATE_EPOCH"] == "7"
    assert made["RUSTFLAGS"].split()[:2] == ["-C", "x"]
    assert f"--remap-path-prefix={tmp_path}=assay" in made["RUSTFLAGS"]
    assert "--remap-path-prefix=/t=target" in made["RUSTFLAGS"]
    # No repository, no commit: still a fixed time.
    assert build_wheel.reproducible({}, tmp_path)["SOURCE_DATE_EPOCH"] == str(build_wheel.EARLIEST)


def test_container_says_what_the_machine_has_as_an_ordinary_user(root: Path) -> None:
    lines = (root / "Containerfile").read_text("utf-8").splitlines()
    assert 'ENTRYPOINT ["assay"]' in lines
    assert 'CMD ["doctor"]' in lines
    # A number, which Kubernetes can tell from root without looking a name up.
    assert "USER 10001" in lines
    assert any("--uid 10001" in line for line in lines)


def test_container_stops_at_once_and_compiles_nothing_at_its_start(root: Path) -> None:
    text = (root / "Containerfile").read_text("utf-8")
    lines = text.splitlines()
    # A first process without a handler ignores SIGTERM: calibrate, or a server that still loads.
    assert "STOPSIGNAL SIGINT" in lines
    # The user may not write beside the modules.
    assert text.count("compileall -q --invalidation-mode unchecked-hash") == 2
    # Relative paths end in the volume: the user may not write in /.
    assert "WORKDIR /data" in lines
    # Beyond the loopback address assay serve refuses to listen without a key.
    (serve,) = [line for line in lines if "assay serve" in line]
    assert "-e ASSAY_API_KEY" in serve


def test_workflow_runs_scripts_that_exist_and_publishes_after_all_checks(root: Path) -> None:
    text = (root / ".github" / "workflows" / "release.yml").read_text("utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    assert set(jobs["publish"]["needs"]) >= {"wheels", "try", "checks"}
    images = {row["image"] for row in jobs["wheels"]["strategy"]["matrix"]["include"]}
    assert {image.rpartition("_2_28_")[2] for image in images} == {"x86_64", "aarch64"}
    scripts = set(re.findall(r"scripts/\w+\.py", text))
    assert len(scripts) > 1
    assert [name for name in scripts if not (root / name).is_file()] == []


def test_newest_release_in_the_changelog_is_this_version(root: Path) -> None:
    version = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    releases = re.findall(r"^## (\d[\d.]*)", (root / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert releases[0] == version

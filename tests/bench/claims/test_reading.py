"""Claims as files: what is read, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.bench.claims import reading
from assay.bench.claims.claim import Target
from assay.bench.suites.registry import SUITES
from assay.errors import InputError

CLAIM = """
name = "products"
about = "GEMMs"
suite = "gemm"
unit = "FLOP"
metric = "GFLOP/s"

[data]
generator = "gemm"
seeds = [1, 2, 3]

[run]
dtypes = "f32"
cases = ["512"]

[rivals]
required = ["NumPy"]

[gates]
saturation = 0.5
[[gates.target]]
over = "NumPy"
at_least = 1.0
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "bench.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_claim_is_read_with_its_gates(tmp_path: Path) -> None:
    claim = reading.read_claim(written(tmp_path, CLAIM))
    assert (claim.name, claim.suite, claim.data.seeds) == ("products", "gemm", (1, 2, 3))
    assert (claim.run.dtypes, claim.run.cases, claim.run.device) == ("f32", ("512",), None)
    assert claim.rivals.required == ("NumPy",)
    assert claim.gates.target == (Target(over="NumPy", at_least=1.0),)
    assert (claim.gates.saturation, claim.gates.spread, claim.gates.regression) == (0.5, 0.02, 0.05)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[run]", "[runs]", 'unknown key "runs"'),
        ('generator = "gemm"', 'generator = "gemv"', 'data.generator: expected "gemm"'),
        ("GFLOP/s", "furlongs", 'unknown metric "furlongs"'),
        ("[1, 2, 3]", "[1, 2, -3]", "expected different numbers, none below 0, got"),
        ("[1, 2, 3]", "[1, 2, 3]\nsize = 0", "data.size: expected 1 to 68,719,476,736, got 0"),
        ("[1, 2, 3]", "[1, 2, 3]\nsize = 100_000_000_000", "736, got 100,000,000,000"),
        ("saturation", "saturated", 'gates: unknown key "saturated"'),
        ('suite = "gemm"', "", "expected one of suite, workload and [work], got none"),
        ('suite = "gemm"', 'suite = "gem"', 'unknown suite or workload "gem"'),
        ('unit = "FLOP"', "", "unit: expected a text, got none"),
        ("seeds = [1, 2, 3]", "", "data.seeds: expected at least 3 seeds, got none"),
        ("seeds = [1, 2, 3]", "seeds = [1, 2]", "data.seeds: expected at least 3 seeds, got 2"),
        ("seeds = [1, 2, 3]", "seeds = [1, 1, 3]", "data.seeds: expected different numbers"),
        (
            "seeds = [1, 2, 3]",
            'seeds = ["x", 1, 2]',
            "data.seeds: expected a whole number, got 'x'",
        ),
        ('generator = "gemm"', "", "data: expected a generator with seeds, or a file"),
        ('generator = "gemm"', 'file = "a.npz"', "data.file: expected it with one sha256"),
        (
            "[1, 2, 3]",
            "[1, 2, 1000005]",
            "data.seeds: expected numbers below 999,983, got 1,000,005",
        ),
        ("[1, 2, 3]", "[1, 2, 3]\nunits = 0", "data.units: expected at least 1, got 0"),
        ("[1, 2, 3]", "[1, 2, 3]\nunits = -4", "data.units: expected at least 1, got -4"),
        ("saturation = 0.5", "saturation = 5", "gates.saturation: expected a share from 0 to 1"),
        ("saturation = 0.5", "seeds = 1", "gates.seeds: expected at least 3, got 1"),
        ("at_least = 1.0", "", "expected at_least or at_most"),
        ("at_least = 1.0", "at_most = nan", "at_most: expected a finite number above 0, got nan"),
        ("at_least = 1.0", "at_least = -1", "at_least: expected a finite number above 0, got -1"),
        ('dtypes = "f32"', "dtypes = 3", "run.dtypes: expected a text, got 3"),
        ("[gates]", "[gates", "expected TOML"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = written(tmp_path, CLAIM.replace(old, new, 1))
    with pytest.raises(InputError) as refused:
        reading.read_claim(path)
    assert message in refused.value.message
    assert str(path) in refused.value.message
    assert "\n" not in refused.value.message


def test_every_suite_has_a_claim() -> None:
    names = reading.claim_names()
    assert set(SUITES) <= set(names)
    for name in names:
        claim = reading.claim_named(name)
        assert (claim.name, claim.path is not None) == (name, True)


def test_a_claim_is_found_by_folder_and_a_missing_file_is_named(tmp_path: Path) -> None:
    written(tmp_path, CLAIM)
    assert reading.claim_named(str(tmp_path)).name == "products"
    with pytest.raises(InputError, match=r"none\.toml"):
        reading.claim_named(str(tmp_path / "none.toml"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: expected a claim, bench\.toml, in this folder"):
        reading.claim_named(str(tmp_path / "empty"))

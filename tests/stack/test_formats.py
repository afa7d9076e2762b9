"""Number formats against published tables and NumPy's own limits."""

from __future__ import annotations

import numpy as np
import pytest

from assay.model import Registry
from assay.stack import formats

# Name: exponent bits, mantissa bits, finite only, largest. 448 and 57344 are Table 1 of
# Micikevicius et al. 2022; E2M1, E2M3 and E3M2 are Tables 2 to 5 of OCP Microscaling Formats 1.0.
LARGEST = {
    "E4M3": (4, 3, 1, 448.0),
    "E5M2": (5, 2, 0, 57344.0),
    "E3M2": (3, 2, 2, 28.0),
    "E2M3": (2, 3, 2, 7.5),
    "E2M1": (2, 1, 2, 6.0),
    "float16": (5, 10, 0, float(np.finfo(np.float16).max)),
    "float32": (8, 23, 0, float(np.finfo(np.float32).max)),
    "bfloat16": (8, 7, 0, 3.3895313892515355e38),
}


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.from_scopes([formats.scope])


def fields(exponent: int, mantissa: int, finite: int) -> dict[str, float]:
    return {
        "formats.exponent_bits": exponent,
        "formats.mantissa_bits": mantissa,
        "formats.finite_only": finite,
    }


@pytest.mark.parametrize("name", LARGEST)
def test_largest_number(registry: Registry, name: str) -> None:
    exponent, mantissa, finite, largest = LARGEST[name]
    found = registry.resolve("formats.largest", fields(exponent, mantissa, finite))
    assert found.value == pytest.approx(largest, rel=1e-12)


def test_the_ieee_rule_is_wrong_for_e4m3(registry: Registry) -> None:
    assert registry.resolve("formats.largest", fields(4, 3, 0)).value == 240.0


@pytest.mark.parametrize(
    ("kind", "exponent", "mantissa"), [(np.float16, 5, 10), (np.float32, 8, 23)]
)
def test_smallest_numbers_and_rounding_error(
    registry: Registry, kind: type[np.floating], exponent: int, mantissa: int
) -> None:
    limits = np.finfo(kind)
    given = fields(exponent, mantissa, 0)
    for name, expected in {
        "smallest_normal": limits.smallest_normal,
        "smallest_subnormal": limits.smallest_subnormal,
        "round_off": limits.eps / 2,
        "bits": limits.bits,
    }.items():
        found = registry.resolve(f"formats.{name}", given).value
        assert found == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize(
    ("exponent", "mantissa", "block", "scale", "size"),
    [
        (5, 10, 1, 0, 2.0),
        (4, 3, 32, 8, 1.03125),  # MXFP8: 8.25 bits an element
        (2, 1, 32, 8, 0.53125),  # MXFP4: 4.25 bits an element
    ],
)
def test_stored_size(
    registry: Registry, exponent: int, mantissa: int, block: int, scale: int, size: float
) -> None:
    given = {
        **fields(exponent, mantissa, 0),
        "formats.block.size": block,
        "formats.block.scale_bits": scale,
    }
    assert registry.resolve("formats.element_size", given).value == pytest.approx(size, rel=1e-12)

"""The rule that tells one source from another."""

import pytest

from assay.validate.cases import Case, published_cases, read_cases
from assay.validate.sources import source_of


def case(url: str = "", title: str = "", name: str = "suite-1") -> Case:
    return Case(name, "training", {}, {}, {"url": url, "title": title})


@pytest.mark.parametrize(
    ("urls", "source"),
    [
        (
            (
                "https://github.com/NVIDIA/TensorRT-LLM/blob/v0.17.0/docs/source/perf-overview.md",
                "https://github.com/NVIDIA/TensorRT-LLM/blob/main/docs/perf-overview.md",
                "https://raw.githubusercontent.com/NVIDIA/TensorRT-LLM/main/README.md",
                "https://github.com/nvidia/tensorrt-llm.git",
            ),
            "github.com/nvidia/tensorrt-llm",
        ),
        (
            (
                "https://github.com/mlcommons/training_results_v4.1",
                "https://github.com/mlcommons/training_results_v5.0/tree/main/NVIDIA",
            ),
            "github.com/mlcommons/training_results",
        ),
        (
            (
                "https://arxiv.org/abs/2104.04473",
                "https://arxiv.org/pdf/2104.04473v5",
                "http://www.arxiv.org/abs/2104.04473",
            ),
            "arxiv.org/2104.04473",
        ),
        (("https://www.databricks.com/blog/mpt-7b", "databricks.com/blog/other"), "databricks.com"),
        (("https://github.com/owner/2048",), "github.com/owner/2048"),
    ],
)
def test_releases_and_pages_of_a_source_are_one(urls: tuple[str, ...], source: str) -> None:
    assert {source_of(case(url)) for url in urls} == {source}


def test_cases_without_an_address_go_by_title_then_suite() -> None:
    assert source_of(case(title="Own run, 2024 ")) == "own run, 2024"
    assert source_of(case(name="mine-1")) == "mine"


def test_every_published_case_has_an_address_and_suites_do_not_split_sources() -> None:
    cases = read_cases(published_cases())
    assert all(one.source.get("url") for one in cases)
    suites = {case.suite for case in cases if source_of(case) == "github.com/nvidia/tensorrt-llm"}
    assert len(suites) == 6
    assert {"trtllm0.5", "trtllm0.14", "trtllm1.0", "trtllm1.2"} <= suites
    source = "github.com/nvidia/dgxc-benchmarking"
    assert {case.suite for case in cases if source_of(case) == source} == {
        "dgxc", "dgxcdense", "dgxcmoe",
    }  # fmt: skip

"""The page and the text: self-contained, hostile names are data, every empty state says why."""

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from sample_run import START, candidate

import assay
from assay.improve.experiments.result import ExperimentResult
from assay.improve.journal.journal import Journal
from assay.improve.loop.outcome import Outcome
from assay.improve.loop.record import RunRecord
from assay.report.run import write_run
from assay.report.verify import verify

Finished = tuple[Path, RunRecord]
HOSTILE = "<script>alert(1)</script>|`*_[x](http://evil.example)\n# no"


class _Structure(HTMLParser):
    """Tags that are open, and everything that could load or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.suspicious: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br", "rect", "line", "circle", "path", "link", "img"):
            self.open.append(tag)
        if tag in ("script", "link", "iframe", "img", "object"):
            self.suspicious.append(tag)
        self.suspicious += [name for name, _ in attrs if name.startswith("on") or name == "src"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(text: str) -> None:
    structure = _Structure()
    structure.feed(re.sub(r"<(rect|line|circle|path)([^>]*)/>", r"<\1\2>", text))
    assert structure.open == []
    assert structure.suspicious == []
    assert "http" not in re.sub(r"http-equiv|http://evil.example", "", text)


def test_the_page_needs_nothing_else(finished: Finished) -> None:
    text = (finished[0] / "report.html").read_text()
    check_page(text)
    for label in (
        "the metric before and after", "ratio of every trial with its interval",
        "confidence sequences of the experiments", "every block over time, by arm",
        "waterfall of the step, from floor to observed",
    ):  # fmt: skip
        assert f'aria-label="{label}"' in text
    assert text.count('class="dropped"') == sum(
        bool(block.dropped)
        for result in (
            *finished[1].experiments, finished[1].noise, finished[1].confirmation,
            *finished[1].left_out.values(),
        )
        if result is not None
        for block in result.blocks
    )  # fmt: skip


def _small_run(folder: Path, **changes: object) -> Path:
    """A run in which nothing was measured."""
    outcome = Outcome(
        folder, "diagnosed only", "output_throughput", None, None, None,
        settings=dict(START), notes=("at 93 % of the floor",),
    )  # fmt: skip
    record = RunRecord(outcome=outcome, better="higher", start=START, fingerprint={"model": "m"})
    record = dataclasses.replace(record, **changes)  # type: ignore[arg-type]
    with Journal.create(folder) as journal:
        journal.append("started", command="assay run")
        for result in record.experiments:
            journal.append("experiment", name=result.experiment, candidate=result.candidate)
            journal.append(
                "verdict", experiment=result.experiment, verdict=result.verdict,
                reason=result.reason, failure=result.failure,
            )  # fmt: skip
        write_run(folder, record, journal)
    return folder


def test_a_run_without_experiments_says_so(tmp_path: Path) -> None:
    folder = _small_run(tmp_path / "run")
    page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    check_page(page)
    assert "Diagnosed only: no experiment was made" in text
    assert "No trial was made: the run ended as diagnosed only, at 93 % of the floor." in page
    assert "No waterfall" in page
    assert "No launch command is known for this engine" in page
    assert verify(folder).is_verified


def test_names_of_levers_and_failures_are_data(tmp_path: Path) -> None:
    result = ExperimentResult(
        "e1", candidate(HOSTILE, {HOSTILE: HOSTILE}, None), "invalid", None, HOSTILE,
        failure=HOSTILE,
    )  # fmt: skip
    folder = _small_run(
        tmp_path / "run",
        experiments=(result,),
        skipped=((HOSTILE, HOSTILE),),
        degradations=(HOSTILE,),
        launch_start=HOSTILE,
    )
    page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    check_page(page)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    without_code = re.sub(r"`[^`]*`", "", text)
    assert not re.search(r"(?<!\\)<script", without_code.replace("\\`", ""))
    assert "\n# no" not in text
    assert verify(folder).is_verified


def test_a_report_does_not_say_where_its_folder_was(tmp_path: Path) -> None:
    folder = tmp_path / "20260101-000000-run-0000"
    told = f"the trace does not fit: {folder}/trace: expected 1"
    _small_run(folder, degradations=(told,))
    text = (folder / "report.md").read_text()
    assert str(tmp_path) not in text
    assert "the trace does not fit: trace: expected 1" in text
    assert verify(folder).is_verified


def test_write_is_the_public_contract() -> None:
    """Claims and provenance in, Markdown out; nothing else is needed."""
    figure = assay.report.Claim("final.ratio", "ratio: 2.000x", None, "x", ())
    provenance = assay.report.Provenance("run", 0.0, "0", {}, "")
    text = assay.report.write([figure], provenance)
    assert text.startswith("# Report of run\n")
    assert "final.ratio" in text


@pytest.mark.parametrize(
    ("verdict", "headline"),
    [
        ("nothing to gain", "Nothing to gain: no candidate was proven better than the start"),
        ("undecided", "Undecided: the budget ended before the intervals did"),
        ("rolled back", "Rolled back: the engine runs as it was found"),
        ("engine lost", "The engine was lost"),
    ],
)
def test_other_ends_are_as_plain_as_a_win(tmp_path: Path, verdict: str, headline: str) -> None:
    outcome = Outcome(tmp_path, verdict, "output_throughput", None, None, None)  # type: ignore[arg-type]
    folder = _small_run(tmp_path / "run", outcome=outcome)
    assert (folder / "report.md").read_text().startswith(f"# {headline}\n")

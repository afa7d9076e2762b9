"""`assay bench`, over a suite of known speed."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from assay import bench
from assay.bench.harness import session
from assay.bench.harness.case import Absent, Case, Check, PreparedCase, Settings, Subject, Suite
from assay.bench.harness.clocks import SelfTimedClock
from assay.bench.suites import registry
from assay.cli.app import run


class Toy:
    """A suite with one figure of given seconds and error."""

    def __init__(self) -> None:
        self.seconds = [0.100, 0.101, 0.102, 0.103, 0.104]
        self.error = 0.0
        self.settings: Settings | None = None

    def cases(self, settings: Settings) -> list[Case]:
        self.settings = settings
        samples = itertools.cycle(self.seconds)
        return [
            Case(
                f"thing {dtype}",
                "GB/s",
                lambda: PreparedCase(
                    Subject("assay", lambda _: next(samples), SelfTimedClock(), 1e9),
                    Check("the truth", lambda _: self.error, 1e-6),
                    ceiling=Subject("read", lambda _: 0.08, SelfTimedClock(), 1e9),
                    rivals=[
                        Subject("NumPy", lambda _: 0.2, SelfTimedClock(), 1e9),
                        Absent("PyTorch", "not installed"),
                    ],
                    note="made up",
                ),
                {"dtype": dtype},
            )
            for dtype in settings.dtypes or ("f32",)
        ]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    made = Toy()
    suite = Suite("graph", made.cases, dtypes=("f32", "bf16"), axes=(1,), size_meaning="bytes")
    monkeypatch.setattr(bench, "suite", lambda name: suite)
    return made


class Outcome:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*words: str) -> Outcome:
        capsys.readouterr()
        code = run(["bench", *words])
        return Outcome(code, *capsys.readouterr())

    return call


def test_table_and_conditions(cli: Any, toy: Toy) -> None:
    found = cli("graph")
    assert found.code == 0
    header, row, *conditions = found.out.splitlines()
    assert header.split() == (
        ["figure", "value", "unit", "spread", "of", "ceiling", "check", "over", "rivals"]
    )
    assert row.split()[:7] == ["thing", "f32", "9.804", "GB/s", "4%", "78%", "(78-78)"]
    text = " ".join(" ".join([row, *conditions]).split())
    assert "NumPy 1.96 (" in text
    assert "PyTorch not installed" in text
    assert "ceiling: read, 12.5 GB/s" in text
    assert "load average" in text
    assert "made up" in text
    assert found.err == "[1/1] thing f32\n"


def test_a_run_that_is_ended_early_keeps_what_it_measured(tmp_path: Path) -> None:
    def end() -> PreparedCase:
        raise KeyboardInterrupt

    late = Case("late", "GB/s", end)
    suite = Suite("graph", lambda settings: [*Toy().cases(settings), late])
    with pytest.raises(KeyboardInterrupt):
        bench.run(suite, bench.settings(suite, "cpu"), save=tmp_path / "result.json")
    assert [one.name for one in bench.load(tmp_path / "result.json").figures] == ["thing f32"]


def test_json_has_the_schema(cli: Any, toy: Toy) -> None:
    data = cli("graph", "--json").data
    assert list(data) == [
        "schema", "suite", "quick", "machine", "versions", "commit", "started", "seconds",
        "load_average", "other_cores", "figures", "claim", "options", "summary",
    ]  # fmt: skip
    assert data["schema"] == "assay.bench/1"
    assert set(data["versions"]) == {"assay", "python", *session.LIBRARIES}
    (figure,) = data["figures"]
    assert list(figure) == [
        "name", "unit", "parameters", "value", "spread", "own", "ceiling", "rivals", "absent",
        "check", "bytes", "flops", "working_set_bytes", "cold", "note", "seeds", "stalls",
        "stages",
    ]  # fmt: skip
    assert list(figure["own"]) == ["name", "value", "interval", "p10", "p90", "rounds", "calls"]
    assert list(figure["rivals"][0])[-2:] == ["ratio", "ratio_interval"]
    assert figure["absent"] == {"PyTorch": "not installed"}
    assert len(data["machine"]["fingerprint"]) == 16


def test_markdown(cli: Any, toy: Toy) -> None:
    lines = cli("graph", "--markdown").out.splitlines()
    assert lines[0] == "## assay bench graph"
    assert lines[2].startswith("| figure | value |")
    assert lines[3].count("|") == lines[2].count("|") == lines[4].count("|")
    assert lines[4].startswith("| thing f32 | 9.804 | GB/s |")


def test_choices_reach_the_suite(cli: Any, toy: Toy) -> None:
    data = cli("graph", "--quick", "--dtypes", "bf16,f32", "--sizes", "1K", "--json").data
    assert [figure["name"] for figure in data["figures"]] == ["thing bf16", "thing f32"]
    assert data["quick"] is True
    assert toy.settings is not None
    assert (toy.settings.sizes, toy.settings.quick) == (((1024,),), True)


def test_saved_and_compared(cli: Any, toy: Toy, tmp_path: Path) -> None:
    path = str(tmp_path / "then.json")
    assert cli("graph", "--save", path).code == 0
    same = cli("graph", "--compare", path, "--fail-on-regression", "--json")
    assert same.code == 0
    assert same.data["comparison"]["verdicts"][0]["verdict"] == "undecided"
    toy.seconds = [seconds * 1.2 for seconds in toy.seconds]
    worse = cli("graph", "--compare", path)
    assert worse.code == 0
    assert "regressed 0.83 (" in worse.out
    failed = cli("graph", "--compare", path, "--fail-on-regression")
    assert failed.code == 1
    assert failed.err.endswith("error: regressed: thing f32\n")
    assert cli("graph", "--compare", path, "--fail-on-regression", "--tolerance", "0.3").code == 0
    toy.seconds = [seconds / 2 for seconds in toy.seconds]
    better = cli("graph", "--compare", path, "--fail-on-regression", "--markdown")
    assert better.code == 0
    assert "improved 1.67 (" in better.out


def test_no_common_figure_fails_with_fail_on_regression(cli: Any, toy: Toy, tmp_path: Path) -> None:
    path = str(tmp_path / "then.json")
    cli("graph", "--dtypes", "bf16", "--save", path)
    found = cli("graph", "--dtypes", "f32", "--compare", path, "--fail-on-regression")
    assert found.code == 1
    assert "error: nothing to compare: no figure is in both results" in found.err
    assert "in the file but not measured: thing bf16" in found.out


def test_wrong_answer_exits_with_one(cli: Any, toy: Toy) -> None:
    toy.error = 0.5
    found = cli("graph")
    assert found.code == 1
    assert "WRONG 5e-01" in found.out
    assert found.err.endswith("error: wrong results: thing f32\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("graf",), 'unknown suite or claim "graf"'),
        (("graph", "--sizes", "7"), "the suite graph has no sizes to choose"),
        (("graph", "--dtypes", "f32"), "the suite graph has no dtypes to choose"),
        (("graph", "--device", "tpu"), 'unknown device "tpu"'),
        (("graph", "--device", "sim"), "the suite graph does not run on sim"),
        (("graph", "--compare", "none.json"), "cannot read none.json: No such file or directory"),
        (("graph", "--save", "none/x.json"), "cannot write none/x.json"),
        (("graph", "--fail-on-regression"), "--fail-on-regression needs --compare"),
        (("graph", "--tolerance", "5"), "--tolerance: expected a share from 0 to 1, got 5"),
        (("graph", "--tolerance", "nan"), "--tolerance: expected a share from 0 to 1, got nan"),
        (("graph", "--tolerance", "x"), "invalid value"),
    ],
)
def test_invalid_input_is_one_line_and_exit_two(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found = cli(*words)
    assert (found.code, found.out) == (2, "")
    first, *rest = found.err.splitlines()
    assert message in first
    assert len(rest) <= 1
    assert all(line.startswith("hint: ") for line in rest)


def test_malformed_baseline_is_refused_before_measuring(cli: Any, toy: Toy, tmp_path: Path) -> None:
    malformed = tmp_path / "malformed.json"
    malformed.write_text('{"figures": []}')
    found = cli("graph", "--compare", str(malformed))
    assert (found.code, toy.settings) == (2, None)
    assert "is no result of assay bench" in found.err
    assert len(found.err.splitlines()) == 2


def test_baseline_of_another_suite_is_refused_before_measuring(
    cli: Any, toy: Toy, tmp_path: Path
) -> None:
    path = tmp_path / "then.json"
    cli("graph", "--save", str(path))
    data = json.loads(path.read_text())
    del data["sha256"]
    path.write_text(json.dumps({**data, "suite": "pool"}))
    toy.settings = None
    found = cli("graph", "--compare", str(path))
    assert (found.code, toy.settings) == (2, None)
    assert "expected a result of the suite graph, got one of pool" in found.err


SLOW_SUITES = ("graph", "trace")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in SLOW_SUITES else ())
        for name in registry.SUITES
        # Shares hold for models whose steps are longer than the host's work: see test_sharing; decode
        # is run by test_decode.
        if name not in ("sharing", "decode")
    ],
)
def test_every_suite_runs_quickly(cli: Any, name: str) -> None:
    model = ("--model", "synthetic") if registry.suite(name).has_model else ()
    found = cli(name, "--quick", "--json", *model)
    assert found.code == 0, found.err
    data = found.data
    assert data["figures"]
    names = [figure["name"] for figure in data["figures"]]
    assert len(set(names)) == len(names)
    for figure in data["figures"]:
        assert figure["check"]["passed"], figure["name"]
        # Shares of runs may be none: equal settings promoted, or a gain found in a few runs.
        assert figure["value"] > 0 or figure["unit"].startswith("%")
    assert found.err.count("\n") >= len(names)

"""Claims that bring their work along: functions and commands of the user, in the one harness."""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay import bench
from assay.bench.claims import manifest, reading
from assay.bench.harness import runner, session
from assay.bench.own import workload
from assay.bench.own.values import as_file, difference, named_arrays
from assay.cli.app import run
from assay.errors import InputError

FUNCTIONS = """
import functools, hashlib, itertools, time
import numpy as np

def numbers(seed, size):
    return np.random.default_rng(seed).integers(0, 1000, size)

def text(seed, size):
    drawn = np.random.default_rng(seed).integers(0, 10**6, size)
    return "".join(f"{number}\\n" for number in drawn)

def fixed(seed, size):
    return np.arange(size)

def any_seed(seed, size):
    return np.random.default_rng().integers(0, 1000, size)

def ours(values):
    return np.cumsum(values)

def ours_in_place(values):
    return np.cumsum(values, out=values)

def reference(values):
    return list(itertools.accumulate(values.tolist()))

def lines(text):
    return "".join(sorted(text.splitlines(keepends=True)))

def wrong(values):
    return np.cumsum(values) + 1

def fails(values):
    raise ValueError("no numbers\\nof the second line")

KEPT = {}

def keeps(values):
    key = values.tobytes()
    if key not in KEPT:
        time.sleep(0.02)
        KEPT[key] = np.cumsum(values)
    return KEPT[key]

def keeps_part(values):
    # Takes 1.6 times as long for values that it has not seen.
    key = values.tobytes()
    time.sleep(0.025 if key in KEPT else 0.040)
    KEPT[key] = np.cumsum(values)
    return KEPT[key]

class Later:
    def __init__(self, values):
        self.values = values
    def __array__(self, *_, **__):
        return np.cumsum(self.values)

def later(values):
    return Later(values)

def later_in_a_list(values):
    return [Later(values)]

class LateNumber(float):
    def __float__(self):
        return 1.0

def late_number(values):
    return LateNumber()

def late_numbers(values):
    return [1.0, [2, LateNumber()]]

def leaves(values):
    raise SystemExit(0)

def leaves_generator(seed, size):
    raise SystemExit(0)

def sums_in_set_up(seed, size):
    values = numbers(seed, size)
    KEPT[values.tobytes()] = np.cumsum(values)
    return values

def from_set_up(values):
    return KEPT[values.tobytes()]

async def waits(values):
    return np.cumsum(values)

def first_only(values, kept={}):
    return kept.setdefault("sums", np.cumsum(values))

def faster_clock(values):
    time.perf_counter = lambda: 0.0
    return np.cumsum(values)

def half(values):
    return values / 2

def almost_half(values):
    return values * 0.5000001
"""

SUMS = """
name = "sums"
about = "running sums"
unit = "number"
metric = "ns/number"
[work]
function = "mine.py:ours"
[reference]
function = "mine.py:reference"
[[rivals]]
name = "in place"
function = "mine.py:ours_in_place"
[data]
generator = "mine.py:numbers"
seeds = [1, 2, 3]
size = 400
"""

SORTED = """
name = "sorted-lines"
about = "lines in order"
unit = "line"
metric = "ms"
[work]
command = ["sort"]
[reference]
function = "mine.py:lines"
[[rivals]]
name = "to a file"
command = ["sort", "{input}", "-o", "{output}"]
[[rivals]]
name = "nobody"
command = ["./nobody"]
[data]
generator = "mine.py:text"
seeds = [1, 2, 3]
size = 50
"""


class Outcome:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def data(self) -> Any:
        """What it printed as JSON."""
        return json.loads(self.out)


@pytest.fixture
def cli(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Outcome]:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(FUNCTIONS, encoding="utf-8")

    def call(claim: str, *words: str) -> Outcome:
        (tmp_path / "bench.toml").write_text(claim, encoding="utf-8")
        capsys.readouterr()
        code = run(["bench", *words])
        return Outcome(code, *capsys.readouterr())

    return call


def test_a_function_is_measured_beside_its_rivals_and_reproduced(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    gate = cli(SUMS, "gate", "bench.toml", "--quick", "--save", "kept.json", "--json")
    verdicts = {line["gate"]: line["verdict"] for line in gate.data["gates"]}
    assert (verdicts["check"], verdicts["seeds"], verdicts["saturation"]) == ("passed",) * 3
    (figure,) = bench.load(Path("kept.json")).figures
    assert (figure.name, figure.unit) == ("sums, 400 numbers", "ns/number")
    assert figure.own.name == "sums"
    assert [rival.name for rival in figure.rivals] == ["in place"]
    assert "calls, each with inputs of its own" in figure.note
    assert set(bench.load(Path("kept.json")).versions) >= {"numpy", "mine.py"}
    again = cli(SUMS, "reproduce", "kept.json", "--claim", "bench.toml", "--json")
    assert [row["name"] for row in again.data["figures"]] == ["sums, 400 numbers"]
    lost = cli(SUMS, "reproduce", "kept.json")
    assert (lost.code, "the claim sums: expected its bench.toml" in lost.err) == (2, True)
    changed = SUMS.replace("size = 400", "size = 401")
    other = cli(changed, "reproduce", "kept.json", "--claim", "bench.toml")
    assert (other.code, "data: expected what was measured" in other.err) == (2, True)
    assert "| sums, 400 numbers |" in cli(SUMS, "table", "kept.json").out
    assert cli(SUMS, "compare", "kept.json", "kept.json").code == 0
    profiled = cli(SUMS, "profile", "bench.toml", "--quick", "--out", "trace", "--calls", "2")
    assert (profiled.code, (tmp_path / "trace").is_dir()) == (0, True)


def test_the_example_passes_its_checks(cli: Callable[..., Outcome], root: Path) -> None:
    outcome = cli(SUMS, "run", str(root / "examples" / "own_claim"), "--quick", "--json")
    (figure,) = outcome.data["figures"]
    assert (outcome.code, figure["check"]["error"]) == (0, 0.0)
    assert [rival["name"] for rival in figure["rivals"]] == ["NumPy"]
    guide = (root / "docs" / "guides" / "claims.md").read_text(encoding="utf-8")
    printed = (root / "examples" / "own_claim" / "bench.toml").read_text(encoding="utf-8")
    assert f"```toml\n{printed}```" in guide


def test_a_command_reads_standard_input_or_a_file(cli: Callable[..., Outcome]) -> None:
    outcome = cli(SORTED, "run", "bench.toml", "--quick", "--json")
    (figure,) = outcome.data["figures"]
    assert (outcome.code, figure["check"]["error"]) == (0, 0.0)
    assert [rival["name"] for rival in figure["rivals"]] == ["to a file"]
    assert figure["absent"] == {"nobody": "./nobody: expected the program ./nobody, got none"}


def test_a_command_reports_its_own_value(cli: Callable[..., Outcome], tmp_path: Path) -> None:
    program = "import json, sys; print(int(sys.argv[1]) * 2); print(json.dumps({'rate': 250.0}))"
    (tmp_path / "double.py").write_text(program, encoding="utf-8")
    (tmp_path / "twice.py").write_text("import sys; print(int(sys.argv[1]) + int(sys.argv[1]))")
    claim = """
name = "doubling"
about = "a number twice"
unit = "row"
metric = "M rows/s"
[work]
command = ["{python}", "double.py", "{seed}"]
value = "rate"
[reference]
command = ["{python}", "twice.py", "{seed}"]
[data]
seeds = [1, 2, 3]
"""
    outcome = cli(claim, "run", "bench.toml", "--quick", "--json")
    (figure,) = outcome.data["figures"]
    assert (outcome.code, figure["value"], figure["unit"]) == (0, pytest.approx(250.0), "M rows/s")
    assert '"rate" as the command reports it' in figure["note"]
    # 250 s of a call, 250 s of a row, and a row in four milliseconds of a run of a thousand.
    for metric, size in (("s", ""), ("s/row", ""), ("rows/s", "size = 100000")):
        wrong = claim.replace("M rows/s", metric) + size
        refused = cli(wrong, "run", "bench.toml", "--quick")
        assert (refused.code, "rate: expected at most the" in refused.err) == (2, True), metric
    # A thing that the claim does not count says nothing of how long the command ran.
    assert cli(claim.replace("M rows/s", "structures/h"), "run", "bench.toml", "--quick").code == 0
    (tmp_path / "double.py").write_text(program.replace("250.0", "0.0"), encoding="utf-8")
    for metric in ("M rows/s", "MB"):
        none = cli(claim.replace("M rows/s", metric), "run", "bench.toml", "--quick")
        assert none.code == 2
        assert "rate: expected a finite number above 0, got 0.0" in none.err
    (tmp_path / "double.py").write_text(program, encoding="utf-8")
    silent = cli(claim.replace('"rate"', '"speed"'), "run", "bench.toml", "--quick")
    assert (silent.code, 'expected a last line such as {"speed": 1.5}' in silent.err) == (2, True)


@pytest.mark.parametrize(
    ("function", "code", "said"),
    [
        ("wrong", 1, "outputs differ from the reference mine.py:reference"),
        ("first_only", 1, "outputs differ"),
        ("keeps", 1, "times as fast on data that were seen before: outputs are kept"),
        ("keeps_part", 1, "times as fast when it runs again on the same data: outputs are kept"),
        ("later", 2, "mine.py:later: expected arrays, numbers, text or bytes"),
        ("later_in_a_list", 2, "or a tuple or dict of them, got a list with Later"),
        ("late_number", 2, "or a tuple or dict of them, got LateNumber"),
        ("late_numbers", 2, "or a tuple or dict of them, got a list with LateNumber"),
        ("leaves", 2, "mine.py:leaves raised SystemExit: 0"),
        ("fails", 2, "mine.py:fails raised ValueError: no numbers hint: it was called with (an array of 400)"),
        ("our", 2, 'function of'),
    ],
)  # fmt: skip
def test_work_that_is_faked_or_fails_is_refused(
    cli: Callable[..., Outcome], function: str, code: int, said: str
) -> None:
    claim = SUMS.replace('mine.py:ours"', f'mine.py:{function}"')
    outcome = cli(claim, "run", "bench.toml", "--quick")
    words = " ".join((outcome.out + outcome.err).split())
    assert (outcome.code, said in words) == (code, True), words


def test_a_file_that_ends_the_process_passes_no_gate(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    (tmp_path / "ends.py").write_text("import sys\nsys.exit(0)\n", encoding="utf-8")
    imported = cli(SUMS.replace("mine.py:ours", "ends.py:ours"), "gate", "bench.toml", "--quick")
    assert imported.code == 2
    assert "ends.py: cannot be imported: SystemExit: 0" in imported.err
    drawn = cli(SUMS.replace(":numbers", ":leaves_generator"), "gate", "bench.toml", "--quick")
    assert (drawn.code, "mine.py:leaves_generator raised SystemExit: 0" in drawn.err) == (2, True)


SHORT = """
import functools

def seed(seed, size):
    return seed

def honest(number):
    total = 0
    for place in range(150):
        total += place * number
    return total

@functools.cache
def kept(number):
    return honest(number)

def reference(number):
    return sum(place * number for place in range(150))
"""


@pytest.mark.parametrize(("function", "is_kept"), [("honest", False), ("kept", True)])
def test_outputs_of_short_calls_that_are_kept_are_told(
    cli: Callable[..., Outcome], tmp_path: Path, function: str, is_kept: bool
) -> None:
    """Calls of ten microseconds, of which a sample of half a millisecond tells nothing."""
    (tmp_path / "short.py").write_text(SHORT, encoding="utf-8")
    claim = SUMS.partition("[[rivals]]")[0] + SUMS[SUMS.index("[data]") :]
    for name, own in (("ours", function), ("reference", "reference"), ("numbers", "seed")):
        claim = claim.replace(f"mine.py:{name}", f"short.py:{own}")
    outcome = cli(claim, "run", "bench.toml", "--seeds", "2", "--quick", "--json")
    (figure,) = outcome.data["figures"]
    assert (outcome.code, "outputs are kept" in figure["note"]) == (int(is_kept), is_kept)
    assert "not checked" not in figure["note"]


def test_a_sample_of_calls_is_verified_on_calls_of_the_same_size(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    """And not on calls as large as all of a sample together, which are other work."""
    program = FUNCTIONS + (
        "\ndef checked(values):\n    assert len(values) == 400, len(values)\n"
        "    return np.cumsum(values)\n"
    )
    (tmp_path / "mine.py").write_text(program, encoding="utf-8")
    claim = SUMS.replace(':ours"', ':checked"')
    outcome = cli(claim, "run", "bench.toml", "--quick", "--json")
    (figure,) = outcome.data["figures"]
    assert (outcome.code, "calls, each with inputs of its own" in figure["note"]) == (0, True)


def test_a_sample_has_no_more_calls_than_inputs_are_made_for(
    cli: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short function of data that take long to make ends, and does not make a thousand of them."""
    monkeypatch.setattr(workload, "_GENERATED_S", 1e-9)
    monkeypatch.setattr(workload, "_SAMPLE_S", 1.0)
    outcome = cli(SUMS, "run", "bench.toml", "--quick", "--json")
    (figure,) = json.loads(outcome.out)["figures"]
    assert "a sample is" not in figure["note"]


def test_a_replaced_clock_is_told(
    cli: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "perf_counter", time.perf_counter)
    claim = SUMS.replace('mine.py:ours"', 'mine.py:faster_clock"')
    outcome = cli(claim, "run", "bench.toml", "--quick")
    assert (outcome.code, "the program replaced the clock" in outcome.err) == (1, True)


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (SUMS.replace("mine.py:numbers", "mine.py:fixed"), "expected other data for another seed"),
        (SUMS.replace("mine.py:numbers", "mine.py:any_seed"), "expected the same data for the same"),
        (SUMS.replace("mine.py:numbers", "mine:numbers"), "expected FILE.py:NAME"),
        (SUMS.replace("mine.py:reference", "mine.py:ours"), "expected another implementation"),
        (SUMS.replace("ns/number", "ns/event"), "metric: expected one of ns, us, ms, s, ns/number"),
        (SUMS.replace("[work]", '[work]\nvalue = "x"'), "work.value: expected commands"),
        (SUMS.replace("[work]", "[work]\nfunktion = 1"), 'unknown key "funktion"'),
        (SUMS.replace("[1, 2, 3]", "[1]"), "expected at least 3 seeds"),
        (SUMS + '\n[[gates.target]]\nover = "nobody"\nat_least = 1.0\n', 'unknown rival "nobody"'),
        (SUMS.replace('"sums"', '"gemm"'), "expected another than that of a suite"),
        (SUMS.replace("[reference]\nfunction = \"mine.py:reference\"\n", ""), "expected [reference]"),
        (SUMS.replace("[work]", 'suite = "gemm"\n[work]'), "got suite and work"),
        (SORTED.replace('["sort"]', '"sort"'), "expected a list of words"),
        (SORTED.replace('generator = "mine.py:text"\n', ""), "expected {seed} among its words"),
        (SORTED.replace('["sort"]', '["sort", "--nothing"]'), "expected exit code 0, got 2"),
        (SORTED.replace('["sort"]', '["sleep", "9"]\ntimeout_s = 0.05'), "expected an end within"),
        (SORTED.replace('["sort"]', '["sort"]\ntimeout_s = inf'), "work.timeout_s: expected more than 0, at"),
        (SUMS.replace("[work]", "[work]\nbytes = inf"), "work.bytes: expected more than 0, at most 1e+18 of a unit"),
        (SUMS.replace('"in place"', '"best rival"'), "rivals[0].name: expected a name of its own"),
        (SORTED.partition("[[rivals]]")[0] + SORTED[SORTED.index("[data]") :]
         + '[[gates.target]]\nover = "best rival"\nat_least = 1.0\n', "expected a rival in the claim, got none"),
        (SUMS.replace("mine.py:ours", "mine.py:waits"), "that returns what it computed, got an async one"),
        (SUMS.replace("mine.py:ours", "mine.py:from_set_up").replace(":numbers", ":sums_in_set_up"),
         "mine.py:from_set_up raised KeyError"),
        (SUMS.replace("[1, 2, 3]", "[1, 2, 999983]"), "data.seeds: expected numbers below 999,983"),
        (SUMS.replace("size = 400", '[run]\nsizes = "800"'), "run.sizes: expected data.size beside it"),
        (SUMS.replace('"number"', '"Number"').replace("ns/number", "ns/Number"), "metric: expected one of ns, us"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_and_exit_two(
    cli: Callable[..., Outcome], claim: str, said: str
) -> None:
    outcome = cli(claim, "run", "bench.toml", "--quick")
    problem = [line for line in outcome.err.splitlines() if line.startswith("error")]
    assert (outcome.code, len(problem)) == (2, 1), outcome.err
    assert said in problem[0]


def test_sizes_that_calls_are_not_told_are_refused(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    """Units of work would be counted that nobody did."""
    program = FUNCTIONS + "\ndef some(seed):\n    return numbers(seed, 400)\n"
    (tmp_path / "mine.py").write_text(program, encoding="utf-8")
    claim = SUMS.replace("mine.py:numbers", "mine.py:some").replace("size = 400", "")
    assert cli(claim, "run", "bench.toml", "--quick").code == 0
    outcome = cli(claim, "run", "bench.toml", "--quick", "--sizes", "800")
    assert (outcome.code, "the suite sums has no sizes to choose" in outcome.err) == (2, True)


def test_a_gate_judges_results_of_its_claim_only(cli: Callable[..., Outcome]) -> None:
    cli(SUMS, "run", "bench.toml", "--quick", "--save", "kept.json")
    words = ("gate", "bench.toml", "--result", "kept.json")
    assert "expected what was measured" not in cli(SUMS, *words).err
    for old, new, part in (
        ("size = 400", "size = 4000", "data"),
        ('mine.py:ours"', 'mine.py:half"', "work"),
        ("ns/number", "us/number", "metric"),
    ):
        outcome = cli(SUMS.replace(old, new), *words)
        assert (outcome.code, outcome.out) == (2, "")
        assert f"bench.toml: {part}: expected what was measured" in outcome.err


def test_a_result_of_other_code_is_neither_judged_nor_reproduced(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    cli(SUMS, "run", "bench.toml", "--quick", "--save", "kept.json")
    judge = ("gate", "bench.toml", "--result", "kept.json")
    again = ("reproduce", "kept.json", "--claim", "bench.toml", "--save", "again.json")
    assert "of other code" not in cli(SUMS, *judge).err
    (tmp_path / "mine.py").write_text(f"{FUNCTIONS}\n# slower\n", encoding="utf-8")
    for words, hint in (
        (judge, "assay bench run . --save kept.json measures the code as it is now"),
        (again, "other code reproduces nothing: assay bench run . --save FILE, then assay bench"),
    ):
        outcome = cli(SUMS, *words)
        assert (outcome.code, outcome.out) == (2, "")
        assert "kept.json is of other code than mine.py has now: expected sha256 " in outcome.err
        assert hint in outcome.err.replace(str(tmp_path), ".")
    assert not (tmp_path / "again.json").exists()
    # From before hashes were kept: it may be of any code, and is not judged.
    data = json.loads(Path("kept.json").read_text())
    del data["sha256"], data["summary"], data["versions"]["mine.py"]
    Path("kept.json").write_text(json.dumps(data))
    assert "other code than mine.py has now: expected sha256" in cli(SUMS, *judge).err
    assert cli(SUMS, *again).code in (0, 1, 3)


def test_a_missing_program_of_a_required_rival_is_said_before_anything_runs(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    drawn = "def text(seed, size):\n"
    leaving = f"{drawn}    open('ran', 'w').close()\n"
    (tmp_path / "mine.py").write_text(FUNCTIONS.replace(drawn, leaving), encoding="utf-8")
    claim = SORTED.replace('command = ["./nobody"]', 'command = ["./nobody"]\nrequired = true')
    outcome = cli(claim, "run", "bench.toml", "--quick")
    assert (outcome.code, (tmp_path / "ran").exists()) == (2, False)
    assert "bench.toml: rivals.required: expected the rival nobody, got none" in outcome.err
    assert cli(claim, "profile", "bench.toml", "--quick", "--out", "trace").code == 0


def test_a_reproduction_is_judged_as_a_result_of_its_claim(
    cli: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "FULL", runner.QUICK)
    cli(SUMS, "run", "bench.toml", "--save", "kept.json")
    words = ("--claim", "bench.toml", "--save", "again.json")
    cli(SUMS, "reproduce", "kept.json", *words)
    judge = ("gate", "bench.toml", "--result", "again.json")
    judged = cli(SUMS, *judge)
    assert (judged.code in (0, 1, 3), "sums, 400 numbers" in judged.out) == (True, True)
    changed = cli(SUMS.replace('mine.py:ours"', 'mine.py:half"'), *judge)
    assert (changed.code, changed.out) == (2, "")


def test_a_name_of_a_result_leads_to_no_other_folder(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    """A result of others must not name whose commands are run."""
    cli(SUMS, "run", "bench.toml", "--quick", "--save", "kept.json")
    data = json.loads(Path("kept.json").read_text())
    del data["sha256"]
    (tmp_path / "bench" / "claims").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "bench.toml").write_text(SUMS)
    for name in (str(tmp_path / "other"), "../../other", "other", "bench.toml", "other/bench.toml"):
        data["suite"] = name
        Path("kept.json").write_text(json.dumps(data))
        outcome = cli(SUMS, "reproduce", "kept.json")
        assert outcome.code == 2
        assert f"the claim {name}: expected its bench.toml, got none" in outcome.err


def test_data_of_a_file_are_staged_and_one_is_said(
    cli: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))
    np.save(tmp_path / "day.npy", np.arange(300))
    digest = hashlib.sha256((tmp_path / "day.npy").read_bytes()).hexdigest()
    head, _, _ = SUMS.partition("[data]")
    claim = f'{head}[data]\nfile = "day.npy"\nsha256 = "{digest}"\nunits = 300\n'
    outcome = cli(claim, "run", "bench.toml", "--quick", "--json")
    (figure,) = outcome.data["figures"]
    assert (outcome.code, figure["name"]) == (0, "sums, 300 numbers")
    assert "was not checked" in figure["note"]


def test_a_manifest_has_what_a_generator_of_ones_own_gives(cli: Callable[..., Outcome]) -> None:
    cli(SUMS, "list")
    claim = reading.claim_named("bench.toml")
    entries, _ = manifest.build([claim], 10**9, lambda _: None)
    assert [entry.seed for entry in entries] == [1, 2, 3]
    assert {verdict.status for verdict in manifest.verify(entries, [claim])} == {manifest.INTACT}


def test_a_manifest_runs_no_generator_of_a_file_that_it_names(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    """A manifest comes from others: what it names is run only of a claim in bench/claims."""
    drawn = "def numbers(seed, size):\n"
    leaving = drawn + "    open('ran', 'w').close()\n"
    (tmp_path / "mine.py").write_text(FUNCTIONS.replace(drawn, leaving), encoding="utf-8")
    assert cli(SUMS, "manifest", "build", "bench.toml").code == 0
    assert (tmp_path / "ran").exists()
    (tmp_path / "ran").unlink()
    refused = cli(SUMS, "manifest", "verify")
    assert (refused.code, refused.out, (tmp_path / "ran").exists()) == (2, "", False)
    assert "the claim sums: expected its bench.toml in bench/claims, got none" in refused.err
    data = json.loads((tmp_path / "manifest.json").read_text())
    for generator in (str(tmp_path), str(tmp_path / "bench.toml"), ".", "bench.toml"):
        data["data_sets"][0]["generator"] = generator
        (tmp_path / "manifest.json").write_text(json.dumps(data))
        assert cli(SUMS, "manifest", "verify").code == 2
    for name in (str(tmp_path), ".", "..", "bench.toml"):
        data["data_sets"][0]["claim"] = name
        (tmp_path / "manifest.json").write_text(json.dumps(data))
        assert cli(SUMS, "manifest", "verify").code == 2
    data["data_sets"][0]["claim"] = ["sums"]
    (tmp_path / "manifest.json").write_text(json.dumps(data))
    assert "expected data_sets, got claim ['sums']" in cli(SUMS, "manifest", "verify").err
    assert not (tmp_path / "ran").exists()


def test_a_manifest_runs_the_generator_of_a_claim_that_is_known(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    folder = tmp_path / "bench" / "claims" / "sums"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(FUNCTIONS, encoding="utf-8")
    (folder / "bench.toml").write_text(SUMS, encoding="utf-8")
    assert cli(SUMS, "manifest", "build", "sums").code == 0
    data = json.loads((tmp_path / "manifest.json").read_text())
    # Of another machine, where the checkout is elsewhere.
    for entry in data["data_sets"]:
        entry["generator"] = "/elsewhere/bench/claims/sums/bench.toml"
    (tmp_path / "manifest.json").write_text(json.dumps(data))
    verified = cli(SUMS, "manifest", "verify", "--json")
    assert (verified.code, [entry["status"] for entry in verified.data["data_sets"]]) == (
        0,
        ["intact"] * 3,
    )


def test_values_are_arrays_whose_types_compute_nothing() -> None:
    nested = [[1, 2], (3, np.int8(4)), np.array([5, 6])]
    np.testing.assert_array_equal(
        named_arrays("f", nested)["value"], np.array([[1, 2], [3, 4], [5, 6]])
    )
    itself: list[Any] = []
    itself.append(itself)

    class Late(np.float64):
        pass

    for value in (
        itself,
        [1, [2]],
        [None],
        [2**70],
        Late(1.0),
        [Late(1.0)],
        {"x": [True, Late(1)]},
    ):
        with pytest.raises(InputError, match="expected arrays, numbers, text or bytes"):
            named_arrays("f", value)


def test_data_may_have_any_names() -> None:
    written = {"file": np.arange(3), "allow_pickle": 2.5, "x": {"y": "text"}}
    with np.load(io.BytesIO(as_file(written))) as archive:
        assert sorted(archive.files) == ["allow_pickle", "file", "x.y"]
        np.testing.assert_array_equal(archive["file"], np.arange(3))


def test_outputs_differ_by_bytes_or_by_a_tolerance() -> None:
    values = np.array([1.0, 2.0, np.nan])
    left, right = (named_arrays("f", part) for part in (values, values.copy()))
    assert difference("f", left, right, 0.0) == 0.0
    close = named_arrays("f", values * (1 + 1e-9))
    assert difference("f", close, right, 1e-6) == pytest.approx(1e-9, rel=1e-3)
    assert difference("f", close, right, 0.0) > 0.0
    printed = named_arrays("f", "1.0, 2.0\nnan\n")
    assert difference("f", printed, right, 1e-6) == 0.0
    assert np.isnan(difference("f", {}, right, 0.0))
    assert difference("f", named_arrays("f", values[:2]), right, 1e-6) == 1.0
    # The same text is as wide as the longest beside it.
    short, long = (named_arrays("f", np.array(words)) for words in (["a", "b"], ["a", "long"]))
    assert difference("f", short, long, 1e-6) == 0.5
    assert difference("f", short, right, 1e-6) == 1.0
    assert difference("f", named_arrays("f", ["a", "b", "c"]), right, 1e-6) == 1.0
    with pytest.raises(InputError, match="expected numbers between blanks"):
        difference("f", named_arrays("f", "one two"), right, 1e-6)

"""The `assay` program as a subprocess, with pipes and terminals."""

import ast
import os
import pty
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

FIXTURE = ("econ.cost.per_token", "--preset", "dense_training_cost_fixture")
ASSAY = (sys.executable, "-m", "assay")

IMPORTED = """
import sys
from assay.cli.app import run
code = run(sys.argv[1:])
print(code, *sorted(sys.modules), file=sys.stderr)
"""


def base_environment(**changes: str) -> dict[str, str]:
    environment = {
        k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")
    }
    return {**environment, "TERM": "xterm-256color", **changes}


def assay(*words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ASSAY, *words], capture_output=True, text=True, env=base_environment(**changes)
    )


def on_terminal(*words: str, **changes: str) -> str:
    """Output on a terminal of eighty columns."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*ASSAY, *words],
        stdin=theirs, stdout=theirs, stderr=theirs, env=base_environment(COLUMNS="80", **changes),
    )  # fmt: skip
    os.close(theirs)
    received = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:
            # Linux reports the far end's closing as an error.
            break
        if not chunk:
            break
        received += chunk
    os.close(ours)
    process.wait()
    return received.decode()


def test_provenance_through_a_pipe(root: Path) -> None:
    finished = assay("explain", *FIXTURE)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout == (root / "tests" / "cli" / "provenance.txt").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ("resolve", *FIXTURE, "--json"),
        ("explain", *FIXTURE),
        ("stats",),
        ("list", "--limit", "0"),
        ("show", "econ.cost.per_token"),
        ("scenario-report", "dense_training_cost_fixture"),
    ],
)
def test_light_commands_load_nothing_heavy(words: Sequence[str]) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", IMPORTED, *words],
        capture_output=True, text=True, env=base_environment(),
    )  # fmt: skip
    code, *modules = finished.stderr.split()
    assert code == "0"
    loaded = {name.partition(".")[0] for name in modules}
    assert loaded & {"numpy", "scipy", "sympy", "SALib", "rich", "pandas", "matplotlib"} == set()


def seconds(command: Sequence[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=base_environment())
    return time.perf_counter() - start


@pytest.mark.slow
def test_warm_resolve_is_no_slower_than_importing_numpy() -> None:
    """At most three times `import numpy`, best of pairs: a busy machine slows both alike."""
    resolve = [*ASSAY, "resolve", *FIXTURE, "--json"]
    numpy = [sys.executable, "-c", "import numpy"]
    seconds(resolve)
    seconds(numpy)
    ratios = []
    for _ in range(7):
        ratios.append(seconds(resolve) / seconds(numpy))
        if min(ratios) <= 2.0:
            break
    assert min(ratios) <= 3.0, ratios


def test_broken_pipe_prints_no_error() -> None:
    process = subprocess.Popen(
        [*ASSAY, "list", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=base_environment(),
    )  # fmt: skip
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_full_disk_is_a_one_line_error() -> None:
    with open("/dev/full", "w") as full:
        finished = subprocess.run(
            [*ASSAY, "list", "--json"],
            stdout=full, stderr=subprocess.PIPE, text=True, env=base_environment(),
        )  # fmt: skip
    assert finished.returncode == 2
    assert finished.stderr == "error: stdout: No space left on device\n"


def test_closed_streams_are_accepted() -> None:
    command = f"{sys.executable} -m assay stats >&- 2>&-"
    assert subprocess.run(["sh", "-c", command], env=base_environment()).returncode == 0


def test_terminal_gets_color_and_box_drawing() -> None:
    shown = on_terminal("explain", *FIXTURE)
    assert "\x1b[1mecon.cost.per_token\x1b[0m" in shown
    assert "\u2514\u2500 " in shown
    assert "`- " not in shown


@pytest.mark.parametrize("changes", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_color_settings_disable_color(changes: dict[str, str]) -> None:
    shown = on_terminal("resolve", "gpu.clock", **changes)
    assert "gpu.clock = unknown" in shown
    assert "error: gpu.clock needs 1 more input" in shown
    assert "\x1b" not in shown


def test_pipes_get_neither_color_nor_box_drawing() -> None:
    finished = assay("explain", "gpu.peak_flops")
    assert "`- gpu.clock" in finished.stdout
    assert finished.stderr.startswith("error: ")
    assert "\x1b" not in finished.stdout + finished.stderr


def test_characters_outside_the_encoding_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "letters.toml"
    path.write_text(
        'name = "\u00e4"\ndescription = "\u6e29\u5ea6"\n[values]\n'
        '"gpu.power" = { value = "1 W/GPU", source = "\u00b5", kind = "assumed" }\n',
        encoding="utf-8",
    )
    words = ("explain", "gpu.power", "--preset", str(path))
    assert "\u6e29\u5ea6" in assay(*words, PYTHONIOENCODING="utf-8").stdout
    narrow = assay(*words, PYTHONIOENCODING="ascii")
    assert narrow.returncode == 0
    assert "\\u6e29\\u5ea6" in narrow.stdout


def test_every_option_states_its_name(root: Path) -> None:
    """Typer 0.27 takes a metavar that is the parameter's name in capitals for the option's name."""
    unnamed, checked = [], 0
    for path in sorted((root / "python/assay/cli").glob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("option", "typer.Option"):
                names = call.args[0]
                if isinstance(names, ast.Starred):
                    continue  # Of `option` itself.
                checked += 1
                if not isinstance(names, ast.Constant) or not str(names.value).startswith("--"):
                    unnamed.append(f"{path.name}:{call.lineno}")
    assert unnamed == []
    assert checked > 200

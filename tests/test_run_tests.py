"""What failed beside other tests is judged by a second run, and nothing else is forgiven."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import run_tests

TESTS = Path(run_tests.__file__).parent
FAILS_ONCE = """
from pathlib import Path
def test_passes(): pass
def test_fails_once():
    flag = Path(__file__).with_name("flag")
    was_there = flag.exists()
    flag.touch()
    assert was_there
"""


def judged(folder, source, *options):
    (folder / "test_here.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -pcrash_reports\n")
    environment = {name: text for name, text in os.environ.items() if "PYTEST" not in name}
    # Plugins of other packages take seconds to load.
    environment |= {"PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, TESTS / "run_tests.py", *options], cwd=folder, capture_output=True, text=True,
        env=environment,
    )  # fmt: skip


def test_what_passes_alone_passes_and_is_named(tmp_path):
    run = judged(tmp_path, FAILS_ONCE)
    assert run.returncode == 0, run.stdout
    assert "1 failed, 1 passed" in run.stdout
    assert "passed alone, failed beside other tests:\n  test_here.py::test_fails_once" in run.stdout


def test_what_fails_twice_fails(tmp_path):
    run = judged(tmp_path, "def test_wrong(): assert False")
    assert run.returncode == 1
    assert "one at a time" in run.stdout
    assert "passed alone" not in run.stdout


def test_many_failures_are_not_tried_again(tmp_path):
    names = range(run_tests.MOST_AGAIN + 1)
    run = judged(tmp_path, "\n".join(f"def test_{name}(): assert False" for name in names))
    assert run.returncode == 1
    assert "one at a time" not in run.stdout


@pytest.mark.parametrize("source", ["import nothing_of_this_name", "def test_("])
def test_files_that_do_not_load_fail(tmp_path, source):
    assert judged(tmp_path, source).returncode == 2


def test_a_crashed_worker_is_never_tried_again(tmp_path):
    source = "import os\ndef test_crash(): os.abort()\ndef test_passes(): pass\n"
    run = judged(tmp_path, source, "-p", "xdist", "-n", "1")
    assert run.returncode == 3, run.stdout
    assert "one at a time" not in run.stdout
    assert "a worker crashed" in run.stdout

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
        [sys.executable, TESTS / "run_tests.py", "-p", "xdist", *options], cwd=folder, capture_output=True, text=True,
        env=environment,
    )  # fmt: skip


def test_what_passes_alone_passes_and_is_named(tmp_path):
    run = judged(tmp_path, FAILS_ONCE)
    assert run.returncode == 0, run.stdout
    assert "1 failed, 1 passed" in run.stdout
    assert "passed alone, failed beside other tests:\n  test_here::test_fails_once" in run.stdout


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
    run = judged(tmp_path, source, "-n", "1")
    assert run.returncode == 3, run.stdout
    assert "one at a time" not in run.stdout
    assert "a worker crashed" in run.stdout


SKIPPED_ALONE = """
import pytest
from pathlib import Path
def test_slow_or_skipped():
    flag = Path(__file__).with_name("flag")
    if flag.exists():
        pytest.skip("the machine is loaded")
    flag.touch()
    assert False
"""


def test_what_is_skipped_alone_has_not_passed(tmp_path):
    run = judged(tmp_path, SKIPPED_ALONE)
    assert run.returncode == 1
    assert "a test that is skipped has not passed" in run.stdout


def test_the_second_run_keeps_the_options_of_the_first(tmp_path):
    marked = FAILS_ONCE.replace("def test_fails_once", "@pytest.mark.slow\ndef test_fails_once")
    source = "import pytest\n" + marked
    (tmp_path / "conftest.py").write_text(
        "def pytest_configure(config): config.addinivalue_line('markers', 'slow: takes long')\n"
    )
    assert judged(tmp_path, source, "-m", "slow").returncode == 0
    (tmp_path / "flag").unlink()
    stopped = judged(tmp_path, source, "-x")
    assert stopped.returncode == 1
    assert "one at a time" not in stopped.stdout


@pytest.mark.parametrize(
    "source",
    [
        # The thread's exception is blamed on a test that has nothing to do with it.
        "import threading\ndef test_thread():\n"
        "    thread = threading.Thread(target=lambda: 1 / 0)\n    thread.start()\n    thread.join()\n",
        "import pytest\nfrom pathlib import Path\n@pytest.fixture\ndef server():\n    yield 1\n"
        "    flag = Path(__file__).with_name('flag')\n    was = flag.exists()\n    flag.touch()\n"
        "    assert was\ndef test_stops(server): pass\n",
    ],
)
def test_what_a_test_left_behind_is_not_forgiven(tmp_path, source):
    run = judged(tmp_path, source, "-W", "error")
    assert run.returncode == 1
    assert "one at a time" not in run.stdout

"""Shell completion: the scripts, and what the program answers them."""

import subprocess
import sys

import pytest

from .conftest import Cli

ASSAY = (sys.executable, "-m", "assay")


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o default -F _assay_completion assay"),
        ("zsh", "compdef _assay_completion assay"),
        ("fish", "complete --command assay"),
    ],
)
def test_script(cli: Cli, shell: str, line: str) -> None:
    outcome = cli("completion", shell)
    assert (outcome.code, outcome.err) == (0, "")
    assert line in outcome.out
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=outcome.out, text=True, check=True)


def test_unknown_shell(cli: Cli) -> None:
    outcome = cli("completion", "tcsh")
    assert outcome.code == 2
    assert outcome.err == 'error: unknown shell "tcsh"\nhint: one of: bash, zsh, fish\n'


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("assay scen", {"scenario-report", "scenario-audit"}),
        ("assay resolve econ.cost.per_to", {"econ.cost.per_token"}),
        ("assay resolve --preset dense_tr", {"dense_training_cost_fixture"}),
        ("assay resolve --with accelerators/h200_s", {"accelerators/h200_sxm"}),
        ("assay generate synt", {"synthetic"}),
        ("assay serve --max-", {"--max-requests", "--max-body", "--max-model-len"}),
    ],
)
def test_answers(line: str, expected: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = line.split()
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv("_ASSAY_COMPLETE", "complete_bash")
    done = subprocess.run(ASSAY, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(done.stdout.split()) == expected


def test_required_arguments_do_not_read_as_a_choice(cli: Cli) -> None:
    assert cli("cone", "--help").out.startswith("Usage: assay cone [OPTIONS] VARIABLE\n")
    assert cli("models", "--help").out.startswith("Usage: assay models [OPTIONS] [MODEL]\n")

"""Errors of the command line: one line, a hint, and the exit code."""

import errno
from typing import Any

import pytest

from assay.cli.app import COMMANDS, GROUPS
from assay.cli.configuration import DEFAULT_MEMBERS

PRESET = ("--preset", "dense_training_cost_fixture")

# Words, exit code, the error, the hint: empty where there is none, None where it may vary.
ERRORS: list[tuple[tuple[str, ...], int, str, str | None]] = [
    (("resolv", "x"), 2, 'unknown command "resolv"', "did you mean resolve?"),
    (("zzz",), 2, 'unknown command "zzz"', "assay --help lists the commands"),
    (("--vrsion",), 2, 'unknown option "--vrsion"', "did you mean --version?"),
    (("-x",), 2, 'unknown option "-x"', "one of: --help, --version, --verbose, --quiet"),
    (("",), 2, 'unknown command ""', "assay --help lists the commands"),
    (
        ("resolve",),
        2,
        "missing argument 'VARIABLE'",
        "assay resolve --help describes its arguments",
    ),
    (
        ("resolve", "a", "b"),
        2,
        "got unexpected extra argument(s) (b)",
        "assay resolve --help describes its arguments",
    ),
    (
        ("resolve", "a", "--jsn"),
        2,
        'unknown option "--jsn" of assay resolve',
        "did you mean --json?",
    ),
    (
        ("resolve", "a", "--assign"),
        2,
        "option '--assign' requires an argument",
        "assay resolve --help describes its arguments",
    ),
    (
        ("resolve", "training.tokens_per_sec"),
        2,
        'unknown variable "training.tokens_per_sec"',
        "did you mean training.tokens_per_second or training.tokens_per_step?",
    ),
    # A name that resembles none: the hint says where all are listed.
    (("explain", "zzz"), 2, 'unknown variable "zzz"', "assay list prints the variables"),
    (("levers", "show", "zzz"), 2, 'unknown lever "zzz"', "assay levers list shows them"),
    (
        ("validate", "--suite", "zzz"),
        2,
        'unknown suite "zzz"',
        "assay validate --suite all --summary lists every suite and group",
    ),
    (("bench", "zzz"), 2, 'unknown suite or claim "zzz"', "assay bench list has them"),
    (
        ("catalog", "show", "accelerators/zzz"),
        2,
        'unknown accelerator "zzz"',
        "assay catalog list accelerators lists them",
    ),
    (
        ("list", "--presets", "--roots"),
        2,
        "--presets and --roots cannot be combined",
        "drop --roots",
    ),
    (
        ("list", "--relations", "--targets"),
        2,
        "--relations and --targets cannot be combined",
        "drop --targets",
    ),
    (
        ("root-debt", "--assign", "gpu.pwer=5 W/GPU"),
        2,
        'unknown variable "gpu.pwer"',
        "did you mean gpu.power?",
    ),
    (
        ("resolve", "physics.boltzman"),
        2,
        'unknown variable "physics.boltzman"',
        "did you mean physics.boltzmann?",
    ),
    (
        ("resolve", "gpu.clock", "--preset", "dense"),
        2,
        'unknown preset "dense"',
        "assay list --presets lists the built-in ones",
    ),
    (
        ("resolve", "gpu.clock", "--preset", "no/such.toml"),
        2,
        "there is no scenario file no/such.toml",
        "assay list --presets lists the built-in ones",
    ),
    (
        ("resolve", "gpu.power", "--set", "gpu.power=5 W"),
        2,
        "unit mismatch in gpu.power: expected W/GPU, got W",
        "gpu.power is per GPU: write W/GPU",
    ),
    (
        ("resolve", "gpu.power", "--set", "gpu.power=5"),
        2,
        "gpu.power has no unit: expected one of the dimension of W/GPU",
        'write for example gpu.power="5 W/GPU"',
    ),
    (
        ("resolve", "gpu.power", "--set", "gpu.power=5 W/GPU", "--set", "gpu.power=6 W/GPU"),
        2,
        'contradictory --assign: gpu.power is given as "5 W/GPU" and as "6 W/GPU"',
        "give it once",
    ),
    (
        ("resolve", "gpu.power", "--set", "gpu.power"),
        2,
        'malformed --assign "gpu.power": expected name="value unit"',
        'write --assign name="value unit"',
    ),
    (
        ("resolve", "gpu.clock", "--variant", "gpu.clock=fast"),
        2,
        'unknown variant of gpu.clock: "fast"',
        "choices: none, the variable is an input",
    ),
    (
        ("resolve", "physics.planck", "--set", "physics.planck=1 J*s"),
        2,
        "physics.planck is a constant of nature and cannot be given",
        "",
    ),
    (
        (
            "resolve",
            "thermal.dc.pue",
            *PRESET,
            "--set",
            "cluster.it_power=0 W",
            "--allow-conflicts",
        ),
        2,
        "thermal.dc.pue has no finite value: division by zero in "
        "thermal.dc.power / cluster.it_power",
        "cluster.it_power is 0",
    ),
    (
        ("show", "training.sequence"),
        2,
        'unknown name "training.sequence"',
        "did you mean architecture.sequence or training.sequences?",
    ),
    (("show", "gpu.clok"), 2, 'unknown name "gpu.clok"', "did you mean gpu.clock?"),
    (("cone", "gpu.clok"), 2, 'unknown variable "gpu.clok"', "did you mean gpu.clock?"),
    (
        ("cone", "gpu.clock", "--direction", "dwn"),
        2,
        'unknown direction "dwn"',
        "did you mean down?",
    ),
    (
        ("cone", "gpu.clock", "--depth", "-1"),
        2,
        "depth of a subgraph: expected 0 or more, got -1",
        "",
    ),
    (("list", "--scope", "gp"), 2, 'unknown scope "gp"', "did you mean gpu?"),
    (("verify", "--profile", "slow"), 2, 'unknown profile "slow"', "one of: fast, full"),
    (
        ("root-debt", "--by", "weight"),
        2,
        'unknown ranking "weight"',
        "one of: dependents, variance",
    ),
    (("root-debt", "--limit", "-1"), 2, "limit: expected 0 or more, got -1", ""),
    (("next-work", "--limit", "-1"), 2, "limit: expected 0 or more, got -1", ""),
    (
        ("export", "--format", "pdf"),
        2,
        'unknown format "pdf"',
        "one of: dot, graphml, json, latex, tape",
    ),
    (
        ("explain", "gpu.clock", "--depth", "-1"),
        2,
        "depth: expected a whole number >= 0, got -1",
        "",
    ),
    (
        ("scenario-report", "dens"),
        2,
        'unknown preset "dens"',
        "assay list --presets lists the built-in ones",
    ),
    (("resolve", "gpu.clock"), 3, "gpu.clock needs 1 more input", None),
]


@pytest.mark.parametrize(
    ("words", "code", "error", "hint"),
    ERRORS,
    ids=lambda item: " ".join(item) if isinstance(item, tuple) else "",
)
def test_error(cli: Any, words: tuple[str, ...], code: int, error: str, hint: str | None) -> None:
    outcome = cli(*words)
    assert outcome.code == code
    lines = outcome.err.splitlines()
    assert lines[0] == f"error: {error}"
    if hint is not None:
        assert lines[1:] == ([f"hint: {hint}"] if hint else [])
        assert outcome.out == ""


@pytest.mark.parametrize(
    ("words", "code", "start"),
    [
        (("toy.cost", "--set", "toy.load=1 W"), 2, "error: toy.cost has 2 defining relations"),
        (("toy.loop",), 2, "error: cyclic definition: toy.loop <- toy.back <- toy.loop"),
        (("toy.share", "--set", "toy.load=-1 W"), 2, "error: toy.load: expected >= 0 W, got -1 W"),
    ],
)
def test_model_errors_are_one_line(
    cli: Any, toy: Any, words: tuple[str, ...], code: int, start: str
) -> None:
    outcome = cli("resolve", *words)
    assert (outcome.code, outcome.out) == (code, "")
    assert outcome.err.startswith(start)
    assert len(outcome.err.splitlines()) == 2 if "hint" in outcome.err else 1


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_json(cli: Any, name: str) -> None:
    outcome = cli(*name.split(), "--help")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"Usage: assay {name} [OPTIONS]")
    assert "--json" in outcome.out
    assert outcome.out.isascii()
    assert cli(*name.split(), "-h").out == outcome.out


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_lists_its_commands(cli: Any, group: str) -> None:
    outcome = cli(group)
    assert (outcome.code, outcome.err) == (0, "")
    listed = outcome.out.split("Commands:")[1]
    members = [name.split()[1] for name in COMMANDS if name.startswith(f"{group} ")]
    assert [line.split()[0] for line in listed.splitlines() if line.strip()] == members
    assert cli(group, "--help").out == outcome.out
    misspelled = cli(group, members[0] + "x")
    assert misspelled.code == 2
    if group in DEFAULT_MEMBERS:
        assert misspelled.err.startswith(f'error: unknown suite or claim "{members[0]}x"')
        return
    assert misspelled.err.startswith(f'error: unknown command "{group} {members[0]}x"')
    assert f"did you mean {group} {members[0]}?" in misspelled.err


def test_program_help_and_version(cli: Any) -> None:
    from assay import __version__

    outcome = cli("--help")
    assert (outcome.code, outcome.err) == (0, "")
    listed = [line.split()[0] for line in outcome.out.splitlines() if line.startswith("  ")]
    words = list(dict.fromkeys(name.split()[0] for name in COMMANDS))
    assert sorted(name for name in listed if name in words) == sorted(words)
    assert "..." not in outcome.out.split("Commands:")[1]
    assert cli().out == cli("-h").out == outcome.out
    assert cli("--version").out == f"assay {__version__}\n"


def test_internal_errors_hide_the_traceback(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from assay import stack

    def broken() -> None:
        raise RuntimeError("wheel\nfell off")

    monkeypatch.setattr(stack, "registry", broken)
    outcome = cli("stats")
    assert (outcome.code, outcome.out) == (70, "")
    assert outcome.err == (
        "error: internal error: RuntimeError: wheel\\nfell off\n"
        "hint: this is a bug in Assay, not in your input; "
        "ASSAY_TRACEBACK=1 prints the traceback\n"
    )
    monkeypatch.setenv("ASSAY_TRACEBACK", "1")
    assert "Traceback" in cli("stats").err


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.ENOMEM, "Cannot allocate memory")])
def test_no_memory_left_is_said(
    cli: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    from assay import stack

    def full() -> None:
        raise error

    monkeypatch.setattr(stack, "registry", full)
    outcome = cli("stats")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: memory: expected enough for this command, got none left")
    assert "hint: a smaller model" in outcome.err


def test_interruption_prints_nothing(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from assay import stack

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stack, "registry", interrupted)
    outcome = cli("stats")
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "")

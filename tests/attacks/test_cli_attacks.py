"""Hostile command lines: whatever is typed ends with an answer, or one error line and a hint."""

import contextlib
import functools
import io
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings, strategies as st

from assay.cli.app import COMMANDS, run
from assay.scenario import built_in

PRESET = "dense_training_cost_fixture"
BEL, ESCAPE = "\x07", "\x1b]0;owned\x07\x1b[2J"


def play(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(words)
    return code, out.getvalue(), err.getvalue()


def assert_refused(words: tuple[str, ...], codes: tuple[int, ...] = (2,)) -> str:
    code, out, err = play(*words)
    assert code in codes, err
    lines = err.split("\n")
    assert lines[0].startswith("error: ")
    assert lines[1:] == [""] or (lines[1].startswith("hint: ") and lines[2:] == [""])
    for text in (out, err):
        assert all(c.isprintable() or c == "\n" for c in text)
    return err


VALUES = [
    "nan", "NaN W/GPU", "inf", "-inf W/GPU", "Infinity", "1e999 W/GPU", "-1e999 W/GPU", "", " ",
    "W/GPU", "1 2 W/GPU", "1,000 W/GPU", "0x10 W/GPU", "1e", "--5 W/GPU", "5 W/GPU; rm", "=", "==",
    "5 W/GPU\n6 W/GPU", "5\x00W", ESCAPE, "\u0665\u00b2 W", "5 \u00b5W/GPU", "5 W\u2044GPU",
    "normal(1) W/GPU", "normal(1, -1) W/GPU", "normal(nan, 1) W/GPU", "normal(1e999, 1) W/GPU",
    "uniform(2, 1) W/GPU", "lognormal(0, 1) W/GPU", "empirical() W/GPU", "empirical(,) W/GPU",
    "gauss(1, 2) W/GPU", "normal(normal(1,2),3) W/GPU", "2..1 W/GPU", "..", "1.. W/GPU",
    "..2 W/GPU", "1..nan W/GPU", "1..2..3 W/GPU", "-1 W/GPU", "1 " + "(" * 5000,
    "1 kW^99999999/GPU", "1 W^(1/0)", "9" * 100_000, "1 W/GPU" + " " * 50_000 + "x",
    "1 degC", "1 bogus", "1 W/gpu",
]  # fmt: skip
NAMES = [
    "", " ", ".", "..", "gpu", "gpu.", ".power", "gpu.power.", "GPU.POWER", "gpu power",
    "gpu.power\n", "gpu.power\x00", ESCAPE, "\u202egpu.power", "x" * 100_000, "--", "-", "*",
    "../../etc", "gpu.power=1", "__class__", "\ud800", "%s%n", "{}", "[bold]x[/bold]",
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda text: ascii(text[:24]))
def test_hostile_values(value: str) -> None:
    err = assert_refused(("resolve", "gpu.power", "--assign", f"gpu.power={value}"))
    assert "internal error" not in err


@pytest.mark.parametrize("name", NAMES, ids=lambda text: ascii(text[:24]))
@pytest.mark.parametrize("command", ["resolve", "explain", "show", "cone", "sweep", "minimize"])
def test_hostile_names(command: str, name: str) -> None:
    over = ("--over", "gpu.clock=1,2 GHz") if command in ("sweep", "minimize") else ()
    assert_refused((command, name, *over))


@pytest.mark.parametrize("name", NAMES, ids=lambda text: ascii(text[:24]))
@pytest.mark.parametrize(
    "option", ["--assign={}=1 W", "--variant={}=x", "--variant=gpu.peak_flops={}", "--preset={}"]
)
def test_hostile_options(option: str, name: str) -> None:
    assert_refused(("resolve", "gpu.power", option.replace("{}", name)))


@pytest.mark.parametrize(
    "number", ["", "x", "1.5", "1e3", "-1", "99999999999999999999999", "0x1", "\u0661a", "--json"]
)
@pytest.mark.parametrize("words", [("explain", "gpu.power"), ("cone", "gpu.power")])
def test_hostile_depths(words: tuple[str, ...], number: str) -> None:
    code, _, err = play(*words, "--depth", number)
    assert code in (0, 2, 3), err
    assert "internal error" not in err


@pytest.mark.parametrize(
    "text",
    [
        b"", b"name", b"[values]\n", b"\xff\xfe", b"values = 1\n", b"[values]\nx = 1\n",
        b'[values]\n"gpu.power" = 1\n', b'[values]\n"gpu.power" = { value = "1 W/GPU" }\n',
        b'[values]\n"gpu.power" = { value = [1], source = "s", kind = "assumed" }\n',
        b'[values]\n"gpu.power" = { value = "nan", source = "s", kind = "assumed" }\n',
        b'[values]\n"gpu.power" = { value = "1 W/GPU", source = 1, kind = "guess" }\n',
        b"targets = 1\n", b"[[targets]]\nlabel = 1\n", b'[[targets]]\nlabel = "a"\nvariable = 1\n',
        b"variants = 1\n", b"defaults = 1\n[values]\n'gpu.power' = '1 W/GPU'\n",
        b'name = 1\ndescription = 2\n', b"[variants]\nx = 1\n", b"a = " + b"[" * 5000,
        b'description = "\\u001b[2J"\n',
    ],
    ids=lambda text: ascii(text[:30]),
)  # fmt: skip
@pytest.mark.parametrize(
    "words",
    [
        ("resolve", "gpu.power", "--preset"),
        ("scenario-report",),
        ("scenario-audit",),
        ("next-work", "--preset"),
    ],
    ids=" ".join,
)
def test_hostile_scenario_files(tmp_path: Path, words: tuple[str, ...], text: bytes) -> None:
    path = tmp_path / "hostile.toml"
    path.write_bytes(text)
    code, out, err = play(*words, str(path))
    assert code in (0, 1, 2, 3), err
    assert all(c.isprintable() or c == "\n" for c in out + err)
    assert len(err.splitlines()) <= 2


def test_scenario_that_is_no_plain_file(tmp_path: Path) -> None:
    assert_refused(("resolve", "gpu.power", "--preset", str(tmp_path / "missing.toml")))
    assert_refused(("resolve", "gpu.power", "--preset", f"{tmp_path}/"))
    assert_refused(("resolve", "gpu.power", "--preset", "/dev/zero"))


def test_labels_from_a_scenario_cannot_move_the_cursor(tmp_path: Path) -> None:
    path = tmp_path / "escape.toml"
    path.write_text(
        'name = "a\\u001b[2Jb"\ndescription = "c\\u0007d\\ne"\n'
        '[[targets]]\nlabel = "l\\u001b[31m"\nvariable = "gpu.power"\n'
        '[values]\n"gpu.power" = { value = "1 W/GPU", source = "s\\u001b[0m", kind = "assumed" }\n'
    )
    for words in (
        ("explain", "gpu.power", "--preset", str(path)),
        ("scenario-report", str(path)),
        ("scenario-audit", str(path)),
    ):
        code, out, err = play(*words)
        assert code == 0
        assert all(c.isprintable() or c == "\n" for c in out + err)


WORDS = st.one_of(
    st.sampled_from(
        [
            *COMMANDS, "--json", "--preset", PRESET, "--assign", "--over", "--unknown", "--equal",
            "--variant", "--depth", "3", "gpu.power", "econ.cost.per_token", "gpu.power=5 W/GPU",
            "training.gpus=1,2 GPU", "training.gpus=1..2 GPU", "--help", "--constraints", "--trace",
            "--missing", "--families", "--by", "variance", "--target", "--limit", "-1", "--no-switch",
            "--allow-conflicts", "--fail-on-violated-constraints", "--direction", "down", "--",
        ]
    ),
    st.text(max_size=12),
)  # fmt: skip


# Words drawn by lot must not measure for minutes, write files, fetch, or wait for clients.
LEFT_OUT = {"calibrate", "export", "mcp", "pull", "run", "serve", "ui"}


@functools.cache
def play_quickly(*words: str) -> tuple[int, str, str]:
    """Plays words once, over one preset: reports on all of them take most of a minute."""
    presets = {PRESET: built_in.presets()[PRESET]}
    with mock.patch.object(built_in, "presets", return_value=presets):
        return play(*words)


@settings(max_examples=60)
@given(command=st.sampled_from(sorted(set(COMMANDS) - LEFT_OUT)), rest=st.lists(WORDS, max_size=6))
def test_any_words_end_in_an_answer_or_one_error(command: str, rest: list[str]) -> None:
    code, out, err = play_quickly(command, *rest)
    assert code in (0, 1, 2, 3), (code, err)
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(errors) == (0 if code == 0 else 1)
    assert "Traceback" not in out + err

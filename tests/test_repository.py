"""Repository-wide checks over every tracked file: ASCII, paths, words, links."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

BUILT = "python/assay/ui/assets/"
"""The built pages: libraries' own words and characters, minified."""
PHONETIC = ("python/assay/speech/phonemes/", "tests/speech/")
"""Where sounds are written in the phonetic alphabet, which has no letters of ASCII."""
ASCII_SUFFIXES = {
    ".py", ".pyi", ".rs", ".toml", ".sh", ".cu", ".cuh", ".h", ".ts", ".js", ".mjs", ".css",
}  # fmt: skip
ASCII_NAMES = {"Makefile", "run", ".gitignore"}

# Folders that exist only on one machine.
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:home|root|Users|tmp|work|workspace|mnt|opt)/\w+")

# Words that only this project used for things that have a name in the field, and British spelling.
PRIVATE_WORDS = re.compile(
    r"few_rows|some_rows|start_next_kernel|extreme_place|\b(?:TAKEN|MADE|EVEN)\b|"
    r"neighbou?rs?_?(?=pair)|NEIGHBO|Telling|\bFlight\b|\breveal|\bAssembly\b|\bchances\b|"
    r"(?<![Nn]ote)(?<!Order)(?<![Oo]rder[ _])(?<!order_book\.)[Bb]ooks\b|"
    r"[Ww]hoever|(?:quant|normal|optim|initial|minim|vector|token)is(?:e|ed|es|er|ing|ation)\b|"
    r"[Bb]ehaviour|[Cc]olour|[Nn]eighbour|[Cc]entre\b|[Cc]atalogue|[Mm]odelled"
)
WORDS_KEPT = (
    "CHANGELOG.md",
    "LICENSE",
    "tests/data/",
    "tests/test_repository.py",
    # Questions in the words of those who ask, and the spelling that they are read in.
    "tests/ask/further_questions.json",
    "python/assay/asking/text.py",
    "bench/results/",
    # Where books are those of an exchange.
    "bench/rivals/order-book/",
    "crates/assay-order-book/",
    "crates/assay-python/src/order_book.rs",
    "docs/guides/order-book.md",
    "python/assay/bench/suites/order_book",
    "python/assay/workloads/order_book/",
    "tests/workloads/test_order_book",
    BUILT,
)

FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<!`)`[^`\n]+`(?!`)")
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
ASSAY_COMMAND = re.compile(r"^\$? ?(?:\.venv/bin/|python -m )?assay ([a-z][a-z-]*)", re.MULTILINE)
MAKE_TARGET = re.compile(r"^\$? ?make ([a-z][a-z-]*)", re.MULTILINE)


@pytest.fixture(scope="module")
def tracked(root: Path) -> dict[str, str]:
    """The text of every tracked file that is text, by its path."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True)
    if listing.returncode != 0:
        pytest.skip("not a git checkout: no list of tracked files")
    texts = {}
    for name in filter(None, listing.stdout.split("\0")):
        path = root / name
        if path.is_file() and b"\0" not in (content := path.read_bytes()):
            texts[name] = content.decode("utf-8")
    return texts


def lines_with(pattern: re.Pattern[str], texts: dict[str, str]) -> list[str]:
    return [
        f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {found.group()}"
        for name, text in texts.items()
        for found in pattern.finditer(text)
    ]


def code_blocks(text: str) -> str:
    return "\n".join(FENCE.findall(text))


def test_sources_are_ascii(tracked: dict[str, str]) -> None:
    sources = {
        name: text
        for name, text in tracked.items()
        if (Path(name).suffix in ASCII_SUFFIXES or Path(name).name in ASCII_NAMES)
        and not name.startswith((BUILT, *PHONETIC))
    }
    assert sources
    assert lines_with(re.compile(r"[^\x00-\x7f]+"), sources) == []


def test_kernel_lines_fit_120_columns(tracked: dict[str, str]) -> None:
    kernels = {name: text for name, text in tracked.items() if name.startswith("kernels/")}
    assert kernels
    assert lines_with(re.compile(r"^.{121,}$", re.MULTILINE), kernels) == []


def test_no_file_names_a_folder_of_one_machine(tracked: dict[str, str]) -> None:
    # Commands of a kept report name the folder that the model had where the run was made.
    texts = {name: text for name, text in tracked.items() if not name.startswith("docs/examples/")}
    assert lines_with(MACHINE_PATH, texts) == []


def test_no_file_uses_a_private_word(tracked: dict[str, str]) -> None:
    texts = {name: text for name, text in tracked.items() if not name.startswith(WORDS_KEPT)}
    # Most words stand in many files: each is looked at once, and its places only where it is private.
    words = {word for text in texts.values() for word in text.split()}
    private = {name: text for name, text in texts.items() if "matrix unit" in text}
    if PRIVATE_WORDS.search("\n".join(words)):
        private = texts
    assert lines_with(re.compile(f"{PRIVATE_WORDS.pattern}|matrix unit"), private) == []


@pytest.mark.parametrize(
    ("line", "is_machine_path"),
    [
        ("cd " + "/home" + "/someone/assay", True),
        ('open("' + "/tmp" + '/x")', True),
        ("https://example.org/home/page", False),
        ("/usr/bin/rustc", False),
        ("python/assay/work/x.py", False),
    ],
)
def test_machine_path_pattern_matches_only_machine_paths(line: str, is_machine_path: bool) -> None:
    assert bool(MACHINE_PATH.search(line)) is is_machine_path


def test_relative_links_resolve(root: Path, tracked: dict[str, str]) -> None:
    broken = []
    for name, text in tracked.items():
        if not name.endswith(".md"):
            continue
        for target in LINK.findall(CODE.sub("", FENCE.sub("", text))):
            if re.match(r"[a-z]+:|#", target):
                continue
            if not (root / name).parent.joinpath(target.partition("#")[0]).exists():
                broken.append(f"{name}: {target}")
    assert broken == []


def test_readme_names_commands_that_exist(tracked: dict[str, str]) -> None:
    named = set(ASSAY_COMMAND.findall(code_blocks(tracked["README.md"])))
    assert named
    plain = os.environ | {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200"}
    listing = subprocess.run(
        [sys.executable, "-m", "assay", "--help"], env=plain, capture_output=True, text=True
    )
    assert listing.returncode == 0, listing.stderr
    offered = set(re.findall(r"^\W*([a-z][a-z-]*)", listing.stdout, re.MULTILINE))
    assert named <= offered


def test_documents_name_make_targets_that_exist(tracked: dict[str, str]) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", tracked["Makefile"], re.MULTILINE))
    named = {
        target
        for name, text in tracked.items()
        if name.endswith(".md")
        for target in MAKE_TARGET.findall(code_blocks(text))
    }
    assert named <= targets

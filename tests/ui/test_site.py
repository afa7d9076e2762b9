"""`assay export site`: complete or absent, and never over something else."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="pages need the extra ui")

from assay import stack
from assay.cli.app import run
from assay.errors import InputError
from assay.scenario.lab import chosen_scenario, scenario_facts
from assay.ui import site
from assay.ui.api import lab


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A site with the model of the lab only: all answers take minutes."""
    monkeypatch.setattr(site, "answers", lambda presets: lab.exported(()))


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("lab/graph", "lab/graph"),
        ("receipt/econ.cost.per_token?preset=a_b", "receipt/econ.cost.per_token~3fpreset~3da_b"),
        ("atlas?preset=a&target=b.c", "atlas~3fpreset~3da~26target~3db.c"),
    ],
)
def test_file_names_are_those_that_pages_look_for(key: str, name: str) -> None:
    assert site.file_name(key) == name


@pytest.mark.usefixtures("few")
def test_site_has_pages_answers_and_styles(tmp_path: Path) -> None:
    found = site.export_site(tmp_path / "site", site.PRESETS)
    files = {path.relative_to(tmp_path / "site").as_posix() for path in found.folder.rglob("*")}
    assert {"index.html", "site.js", "data/lab/model.js", "assets/app.js"} <= files
    assert found.answers == 2
    text = (found.folder / "data/lab/model.js").read_text()
    data = json.loads(text.removeprefix('__assayAnswer("lab/model",').removesuffix(");\n"))
    assert len(data["variables"]) > 1000
    index = (found.folder / "index.html").read_text()
    assert index.index('src="site.js"') < index.index('src="assets/app.js"')
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_a_scenario_with_an_entry_is_the_difference_from_itself() -> None:
    preset, path = "llama3_8b_h200_serving", "tariffs/ireland"
    answers = dict(itertools.islice(_answers_of(preset, path), 2))
    base, difference = (json.loads(text) for text in answers.values())
    assert difference["base"] == f"lab/scenario?preset={preset}" == next(iter(answers))
    assert 0 < len(difference["values"]) < 10
    whole = scenario_facts(chosen_scenario(stack.registry(), preset, [path], {}))
    kept = {name: v for name, v in base["values"].items() if name not in difference["gone"]}
    assert {**base, **difference, "values": {**kept, **difference["values"]}} == {
        **json.loads(json.dumps(whole)), "base": difference["base"], "gone": difference["gone"],
    }  # fmt: skip


def _answers_of(preset: str, path: str) -> Iterator[tuple[str, str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lab, "OFFERED", ("tariffs",))
        patch.setattr(lab.lab, "offered_entries", lambda: {"tariffs": [[path, ""]]})
        yield from itertools.islice(lab.exported((preset,)), 2, None)


@pytest.mark.usefixtures("few")
def test_only_a_site_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    site.export_site(folder, site.PRESETS)
    with pytest.raises(InputError, match="holds a site already"):
        site.export_site(folder, site.PRESETS)
    (folder / "old").write_text("")
    site.export_site(folder, site.PRESETS, force=True)
    assert not (folder / "old").exists()
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine").write_text("")
    with pytest.raises(InputError, match="holds no site"):
        site.export_site(other, site.PRESETS, force=True)
    assert (other / "mine").exists()


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(presets: object) -> Iterator[tuple[str, str]]:
        yield "lab/graph", "{}"
        raise RuntimeError

    monkeypatch.setattr(site, "answers", answers)
    with pytest.raises(RuntimeError):
        site.export_site(tmp_path / "site", site.PRESETS)
    assert list(tmp_path.iterdir()) == []


def test_command_names_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words, message in (
        (["export", "site"], "export site needs a folder"),
        (["export", "site", str(tmp_path / "a" / "b")], "does not exist"),
        (
            ["export", "site", str(tmp_path / "a"), "--preset", "nothing"],
            'unknown preset "nothing"',
        ),
        (["export", "econ.cost.per_token", "a"], 'unexpected argument "a"'),
        (
            ["export", "econ.cost.per_token", "--format", "tape"],
            "format tape is of the whole graph",
        ),
    ):
        assert run(words) == 2
        assert message in capsys.readouterr().err

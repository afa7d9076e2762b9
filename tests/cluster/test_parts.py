"""Work in parts: the same results in order, wherever and however often it is run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from few_parts import TASK

from assay.cluster import current, parts
from assay.cluster.envelope import Envelope, answer_lines, split_log
from assay.cluster.kept import KeptParts
from assay.cluster.local import Processes, ThisProcess
from assay.cluster.parts import PartError, Work, gathered, perform
from assay.errors import InputError


def squares(tmp_path: Path, count: int = 5, **more: Any) -> Work:
    return Work(TASK, {"log": str(tmp_path / "ran"), **more}, list(range(count)))


def ran(tmp_path: Path) -> list[int]:
    path = tmp_path / "ran"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


class Backwards:
    """The last part first, as when the first ones take longest."""

    place = "backwards"

    def results(self, work: Work, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
        yield from reversed(list(ThisProcess().results(work, numbers)))


EXPECTED = [0.1 * n**2 for n in range(5)]


@pytest.mark.parametrize("runner", [ThisProcess(), Backwards()])
def test_results_come_in_the_order_of_the_parts(runner: Any, tmp_path: Path) -> None:
    assert list(gathered(squares(tmp_path), runner)) == EXPECTED


def test_parts_that_are_done_are_not_run_again(tmp_path: Path) -> None:
    kept = KeptParts(tmp_path / "kept")
    said: list[str] = []
    first = gathered(squares(tmp_path), ThisProcess(), kept, said.append)
    assert [next(first) for _ in range(3)] == EXPECTED[:3]
    first.close()
    assert said[-1] == "3 of 5 parts, in this process"
    assert list(gathered(squares(tmp_path), ThisProcess(), kept, said.append)) == EXPECTED
    assert ran(tmp_path) == [0, 1, 2, 3, 4]
    assert said[-1] == "5 of 5 parts, 3 of them kept from before, in this process"


def test_a_damaged_part_is_run_again(tmp_path: Path) -> None:
    kept, work = KeptParts(tmp_path / "kept"), squares(tmp_path)
    list(gathered(work, ThisProcess(), kept))
    (path,) = (tmp_path / "kept").rglob(work.key(2))
    content = path.read_bytes()
    path.write_bytes(content.replace(b"0.4", b"0.5"))
    assert path.read_bytes() != content
    assert list(gathered(work, ThisProcess(), kept)) == EXPECTED
    assert ran(tmp_path) == [0, 1, 2, 3, 4, 2]


def test_other_sources_have_other_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = squares(tmp_path)
    keys = {work.key(0), work.key(1)}
    monkeypatch.setattr(parts, "code_digest", lambda: "other")
    assert keys.isdisjoint({work.key(0), work.key(1)})
    assert work.key(0) != Work(work.task, {"log": "elsewhere"}, work.parts).key(0)


def test_what_a_part_refuses_is_said(tmp_path: Path) -> None:
    with pytest.raises(PartError, match="2 is bad") as caught:
        list(gathered(squares(tmp_path, bad=2), ThisProcess()))
    assert (caught.value.hint, caught.value.exit_code) == ("take another", 2)


def test_a_node_with_other_sources_refuses(tmp_path: Path) -> None:
    work = squares(tmp_path)
    answer = json.loads(perform(work.task, work.shared_text, "1", "0" * 64))
    assert "expected Assay with sources 000000000000" in answer["error"]["message"]
    assert answer["error"]["hint"] == "install the same release of Assay on every node"
    assert ran(tmp_path) == []


# Slow: it starts processes.
@pytest.mark.slow
def test_processes_agree_and_a_lost_one_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=":")
    assert list(gathered(squares(tmp_path), Processes(2))) == EXPECTED
    lost = squares(tmp_path, kills=3, once=str(tmp_path / "once"))
    assert list(gathered(lost, Processes(2))) == EXPECTED
    assert (tmp_path / "once").exists()


def test_where_parts_run() -> None:
    assert isinstance(current.runner(1), ThisProcess)
    assert current.runner(3) == Processes(3)
    with pytest.raises(InputError, match="workers: expected 1 or more, got 0"):
        current.runner(0)


def test_an_answer_comes_back_whole_or_not_at_all() -> None:
    answer = bytes(range(256)) * 40
    lines = ["note: first", *answer_lines(answer)]
    log = split_log("\n".join([*lines, "error: later", ""]))
    assert (log.lines, log.answer) == (["note: first", "error: later"], answer)
    assert split_log("\n".join(lines[:-1])).answer is None
    damaged = [line[:-1] + "A" if place == 3 else line for place, line in enumerate(lines)]
    assert split_log("\n".join([*damaged, ""])).answer is None
    sent = Envelope("20261118-000000-sweep-ab12", ["sweep", "x y"], "abc")
    assert Envelope.from_text(sent.to_text()) == sent

"""Names of runs, and files that are written whole or not at all."""

import os
from pathlib import Path

import polars as pl
import pytest
from block_rows import read_blocks

from assay.errors import InputError, UnknownNameError
from assay.improve.experiments.result import Block
from assay.improve.journal import block_table, run_folder
from assay.improve.journal.faults import VARIABLE, reached
from assay.improve.journal.journal import Journal


def block(index: int, value: float = 10.0) -> Block:
    return Block(
        experiment="threads=2",
        index=index,
        pair=index // 2,
        arm="control" if index % 2 else "treatment",
        started_at=1e9 + index,
        seconds=0.5,
        value=value,
        output_tokens=64,
        requests=2,
        load_state="stable",
        settings={"threads": 2, "graph_buckets": None},
        figures={"output_throughput": value},
    )


def test_a_run_is_found_by_id_prefix_folder_and_latest(tmp_path: Path) -> None:
    first = run_folder.create("decode", tmp_path)
    Journal.create(first.path).close()
    assert run_folder.find(first.id, tmp_path) == first
    assert run_folder.find(first.id[:15], tmp_path) == first
    assert run_folder.find(str(first.path), tmp_path) == first
    assert run_folder.find("latest", tmp_path) == first
    archive = tmp_path / "run.tar.gz"
    archive.write_bytes(b"")
    with pytest.raises(InputError, match="expected the folder of a run, got an archive"):
        run_folder.find(str(archive), tmp_path)
    (tmp_path / run_folder.ACTIVE_NAME).mkdir()
    (tmp_path / "notes").mkdir()
    assert run_folder.stored(tmp_path) == [first]


def test_unknown_and_ambiguous_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no runs are stored"):
        run_folder.find("latest", tmp_path)
    for name in ("20260101-000000-a-0001", "20260101-000000-a-0002"):
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="2 runs start with it"):
        run_folder.find("20260101", tmp_path)
    with pytest.raises(UnknownNameError) as raised:
        run_folder.find("20260101-000000-a-0003", tmp_path)
    assert "20260101-000000-a-0001" in str(raised.value.hint)


def test_the_latest_run_is_the_one_started_last(tmp_path: Path) -> None:
    for name in ("20260101-000000-a-0001", "20260301-000000-a-0001", "20260201-000000-a-0001"):
        (tmp_path / name).mkdir()
    assert run_folder.find("latest", tmp_path).id == "20260301-000000-a-0001"


def test_a_kill_while_a_file_is_written_leaves_the_old_one(tmp_path: Path) -> None:
    run = run_folder.create("decode", tmp_path)
    run.write_json("plan.json", {"floor_ns": 1})
    child = os.fork()
    if child == 0:
        reached.clear()
        os.environ[VARIABLE] = "write.plan.json.before=kill"
        run.write_json("plan.json", {"floor_ns": 2})
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == 9
    assert run.read_json("plan.json") == {"floor_ns": 1}


def test_degradations_are_listed_once(tmp_path: Path) -> None:
    run = run_folder.create("decode", tmp_path)
    run.write_degradations(["no CUPTI", "no power", "no CUPTI"])
    assert run.read_json("degradations.json") == ["no CUPTI", "no power"]


def test_the_order_of_settings_does_not_matter() -> None:
    one = run_folder.configuration_hash({"threads": 2, "batch": 1})
    assert one == run_folder.configuration_hash({"batch": 1, "threads": 2})
    assert one != run_folder.configuration_hash({"batch": 1, "threads": 2.5})


def test_blocks_are_rebuilt_from_the_journal(tmp_path: Path) -> None:
    run = run_folder.create("decode", tmp_path)
    blocks = [block(0), block(1, 12.5), block(2)]
    with Journal.create(run.path) as journal:
        for one in blocks:
            journal.append("block", **block_table.block_data(one))
    assert read_blocks(block_table.rebuild(run)) == blocks
    # As another reader sees it.
    table = pl.read_parquet(run.experiments)
    assert table["value"].to_list() == [10.0, 12.5, 10.0]
    assert table["settings"][0] == '{"graph_buckets":null,"threads":2}'


def test_no_blocks_are_an_empty_table(tmp_path: Path) -> None:
    run = run_folder.create("decode", tmp_path)
    Journal.create(run.path).close()
    assert read_blocks(block_table.rebuild(run)) == []

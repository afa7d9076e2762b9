"""assay store: what is pushed, found and pulled by its commands, and what their JSON has."""

import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.answers import silent
from assay.improve.journal import journal
from assay.plurals import size
from assay.store.describing import find_item
from assay.store.layout import open_store
from assay.store.leases import leased
from assay.store.pushing import manifest_of
from assay.store.run_contents import strays_of

RESULTS = Path(__file__).parents[2] / "bench" / "results"
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any) -> Path:
    monkeypatch.setenv("ASSAY_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))
    assert cli("store", "init").out == f"made store {tmp_path / 'store'}\n"
    return tmp_path / "store"


def test_results_and_calibrations_go_around(store: Path, cli: Any, tmp_path: Path) -> None:
    result, calibration = RESULTS / "gemm-h200.json", RESULTS / "calibration-h200.json"
    pushed = cli("store", "push", str(result), str(calibration), "--tag", "nightly", "--json").data
    assert [row["item"] for row in pushed["items"]] == [
        "result/gemm-h200.json",
        "calibration/calibration-h200.json",
    ]
    assert list(pushed["items"][0]) == (
        [
            "item",
            "manifest",
            "files",
            "bytes",
            "sent_objects",
            "sent_bytes",
            "mended_objects",
            "is_new",
            "is_completed",
            "left_out",
        ]
    )
    rows = cli("store", "find", "accelerator=h200", "--json").data
    assert list(rows) == ["store", "terms", "total", "items"]
    assert rows["total"] == 2
    assert cli("store", "find", "workload==gemm", "--json").data["items"][0]["tags"] == ["nightly"]
    assert cli("store", "find", "tag=other").out == "nothing matches\n"
    assert cli("store", "find", "since=2099-01-01", "--offline", "--json").data["total"] == 0
    assert "result/gemm-h200.json" in cli("store", "list").out
    tagged = cli("store", "tag", "gemm-h200.json", "best")
    assert tagged.out == "result/gemm-h200.json: best, nightly\n"
    tagged = cli("store", "tag", "gemm", "best", "nightly", "--remove")
    assert tagged.out == "result/gemm-h200.json: no tags\n"
    pulled = cli("store", "pull", "result/gemm-h200.json", "--to", str(tmp_path / "a.json"))
    assert pulled.code == 0
    assert (tmp_path / "a.json").read_bytes() == result.read_bytes()
    cli("store", "pull", "calibration-h200.json")
    assert json.loads((tmp_path / "scratch/cache/calibration/calibration-h200.json").read_text())
    status = cli("store", "status", "--json").data
    assert (status["kinds"]["result"], status["objects"], status["pushes"]) == (1, 2, 0)
    assert cli("store", "verify").out.startswith("verified  2 items, 2 objects")
    assert cli("store", "remove", "calibration-h200.json").code == 0
    assert "younger than 24h, and left: 1 object, " in cli("store", "gc").out
    collected = cli("store", "gc", "--grace", "0s", "--json").data
    assert (collected["objects"], collected["manifests"], collected["dry_run"]) == (1, 1, False)


def test_items_of_one_kind_are_listed_and_a_cut_list_says_so_once(store: Path, cli: Any) -> None:
    cli("store", "push", *(str(RESULTS / f"{name}-h200.json") for name in ("gemm", "calibration")))
    for words in (("list",), ("find", "h200")):
        assert cli("store", *words, "--kind", "result", "--json").data["total"] == 1
        cut = cli("store", *words, "--limit", "1")
        assert f"{cut.out}{cut.err}".count("1 of 2 items; --limit 0 lists all") == 1
    assert cli("store", "find", "--kind", "result", "--json").data["total"] == 1
    empty = cli("store", "find", "workload=chat")
    assert empty.out == "nothing matches\n"
    assert "no item has workload=chat; workload is one of: " in empty.err


@pytest.fixture
def run(store: Path) -> Path:
    """The folder of a run that verifies."""
    with tarfile.open(EXAMPLES / "h200-own-engine" / "run.tar.gz") as archive:
        archive.extractall(store.parent / "kept", filter="data")
    (path,) = (store.parent / "kept").iterdir()
    return path


def test_a_name_to_take_out_makes_copies_without_names(run: Path, cli: Any) -> None:
    pushed = cli("store", "push", str(run), "--redact-name", "Qwen", "--json").data
    assert pushed["notes"] == [
        "--redact-name implies --redact: copies without names and prompts were pushed"
    ]
    (row,) = cli("store", "list", "--json").data["items"]
    assert (row["redacted"], row["pushed_by"]) == (True, None)
    refused = cli("store", "push", str(run), "--redact", "--unverified")
    assert refused.code == 2
    assert "expected it without --redact, got both" in refused.err.splitlines()[0]


def test_a_run_that_does_not_verify_is_refused_by_name(run: Path, cli: Any) -> None:
    (run / "report.md").write_text("4x faster")
    for more in ((), ("--redact",)):
        refused = cli("store", "push", str(run), *more)
        assert refused.code == 2
        assert f"run/{run.name}" in refused.out
        assert "refused: report.md: " in " ".join(refused.out.split())
        assert refused.err.splitlines()[0].startswith("error: 1 of 1 item not pushed: run ")
    assert cli("store", "push", str(run), "--unverified").code == 0
    listed = " ".join(cli("store", "list").out.split())
    assert "not verified" in listed
    assert " by " in listed
    assert "not verified 1 version" in " ".join(cli("store", "status").out.split())


def test_a_file_that_is_not_of_the_run_is_left_out_and_named(run: Path, cli: Any) -> None:
    (run / "extra.bin").write_bytes(b"x" * 250_000)
    (run / "trace" / "notes.txt").write_bytes(b"mine")
    pushed = cli("store", "push", str(run), "--json")
    assert pushed.code == 0
    (sent,) = pushed.data["items"]
    assert sent["left_out"] == ["extra.bin", "trace/notes.txt"]
    (note,) = pushed.data["notes"]
    assert note == (
        f"run/{run.name}: left out 2 files that the run did not write: extra.bin (250.0 kB), "
        "trace/notes.txt (4 B); --strays pushes all"
    )
    own = [path for path in run.rglob("*") if path.is_file() and path.name != "notes.txt"]
    assert sent["files"] == len(own) - 1
    assert "extra.bin (250.0 kB)" in " ".join(cli("store", "push", str(run)).err.split())
    everything = cli("store", "push", str(run), "--strays", "--json").data
    assert everything["items"][0]["files"] == sent["files"] + 2
    assert everything["items"][0]["left_out"] == []
    assert "notes" not in everything


def test_a_redacted_copy_has_no_file_that_is_not_of_the_run(
    run: Path, cli: Any, tmp_path: Path
) -> None:
    (run / "mine.json").write_text("{}")
    pushed = cli("store", "push", str(run), "--redact", "--json").data
    assert "mine.json (2 B)" in pushed["notes"][0]
    cli("store", "pull", pushed["items"][0]["item"], "--to", str(tmp_path / "copy"))
    assert (tmp_path / "copy" / "plan.json").is_file()
    assert not (tmp_path / "copy" / "mine.json").exists()


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*/run.tar.gz")), ids=str)
def test_published_runs_have_no_file_that_is_not_theirs(example: Path, tmp_path: Path) -> None:
    with tarfile.open(example) as archive:
        archive.extractall(tmp_path, filter="data")
    (path,) = tmp_path.iterdir()
    assert find_item(str(path)).strays == {}
    # Nor has one that was cut short before its report.
    reading = journal.read(path)
    assert reading.last("report")
    unreported = replace(reading, records=tuple(r for r in reading.records if r.kind != "report"))
    files = find_item(str(path)).files
    assert strays_of(files, unreported) == {}
    assert list(strays_of({**files, "extra.bin": path / "extra.bin"}, unreported)) == ["extra.bin"]


def test_a_pull_of_a_redacted_copy_says_so_and_names_the_original(
    run: Path, cli: Any, tmp_path: Path
) -> None:
    original = cli("store", "push", str(run), "--json").data["items"][0]
    copy = cli("store", "push", str(run), "--redact", "--json").data["items"][0]
    assert copy["item"] == original["item"]
    said = "is a redacted copy: without prompts, paths and names of hosts, users and processes"
    place = str(tmp_path / "pulled")
    pulled = cli("store", "pull", copy["item"], "--to", place, "--json").data
    assert pulled["manifest"] == copy["manifest"]
    assert pulled["notes"][1:] == [
        f"one with prompts and names is stored too: --manifest {original['manifest'][:12]}",
        f"{copy['item']} {said}",
    ]
    again = cli("store", "pull", copy["item"], "--to", place, "--dry-run", "--json").data
    assert f"{copy['item']} {said}" in again["notes"]
    several = cli("store", "pull", "--where", "kind=run", "--to", place + "s", "--json").data
    assert f"{copy['item']} {said}" in several["notes"]
    whole = cli(
        "store", "pull", copy["item"], "--manifest", original["manifest"][:12], "--to",
        str(tmp_path / "whole"), "--json",
    ).data  # fmt: skip
    assert "notes" not in whole


@pytest.mark.parametrize("option", ["--grace", "--older-than"])
def test_a_time_without_a_unit_is_refused(store: Path, cli: Any, option: str) -> None:
    refused = cli("store", "gc", option, "5")
    assert refused.code == 2
    assert refused.err.splitlines() == [
        f"error: {option}: expected a duration with its unit, got '5'",
        "hint: 5s, 5m, 5h or 5d",
    ]
    assert cli("store", "gc", option, "5d", "--dry-run").code == 0


def test_answers_of_a_store_have_headlines(run: Path, cli: Any) -> None:
    cli("store", "push", str(run))
    name = f"run/{run.name}"
    status = assay.store_status()
    assert f": 1 item (1 run), 1 version, {size(status.bytes)}" in status.headline()
    assert status.bytes == sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
    assert assay.list_items().headline().endswith(f", the latest {name}")
    found = assay.find_items("kind=run")
    assert "1 item in " in found.headline()
    assert " of kind=run, the latest " in found.headline()
    assert repr(found) == f"<Found: {found.headline()}>"
    assert assay.find_items("name=nowhere").headline().startswith("nothing in ")


def test_a_push_under_way_is_listed_with_what_is_kept_for_it(store: Path, cli: Any) -> None:
    item = find_item(str(RESULTS / "gemm-h200.json"))
    with leased(open_store(None), manifest_of(item), silent, 0.0):
        status = cli("store", "status").out
        assert "1 under way or cut short" in status
        assert "result/gemm-h200.json" in status
        collected = cli("store", "gc").out
        assert "kept for a push of result/gemm-h200.json: 0 B; last heard of at " in collected
        assert " UTC, unless it goes on: pushes/" in collected


def test_a_query_is_pulled(store: Path, cli: Any, tmp_path: Path) -> None:
    cli("store", "push", *(str(RESULTS / f"{name}-h200.json") for name in ("gemm", "calibration")))
    query = ("store", "pull", "--where", "accelerator=h200", "kind=result", "--to", str(tmp_path))
    listed = cli(*query, "--dry-run")
    assert listed.out.splitlines()[-1].startswith("would pull 1 item, ")
    assert not (tmp_path / "result").exists()
    pulled = cli(*query, "--json").data
    assert list(pulled) == ["store", "terms", "dry_run", "bytes", "fetched_bytes", "items"]
    assert pulled["terms"] == {"accelerator": "h200", "kind": "result"}
    (item,) = pulled["items"]
    assert (item["outcome"], item["place"]) == ("pulled", str(tmp_path / "result/gemm-h200.json"))
    assert "was there, whole" in cli("store", "pull", "--kind", "result", "--to", str(tmp_path)).out
    (tmp_path / "result/gemm-h200.json").write_text("mine")
    refused = cli(*query)
    assert refused.code == 2
    assert refused.err.splitlines()[0].startswith("error: 1 of 1 item not pulled: ")
    assert refused.out.splitlines()[-1] == "0 of 1 item, 0 B, 0 B fetched"
    hint = refused.err.splitlines()[1]
    assert hint.startswith("hint: name another place")
    assert hint.endswith("; the others are not fetched again")
    assert cli("store", "pull", "--where", "model=none").out == "nothing matches\n"


def test_a_dry_run_of_one_item_names_the_place_of_its_pull(
    store: Path, cli: Any, tmp_path: Path
) -> None:
    cli("store", "push", str(RESULTS / "gemm-h200.json"))
    where = str(tmp_path / "a.json")
    words = ("store", "pull", "gemm-h200.json", "--to", where)
    listed = cli(*words, "--dry-run", "--json").data
    assert list(listed) == ["store", "terms", "dry_run", "bytes", "fetched_bytes", "items"]
    (item,) = listed["items"]
    assert (item["outcome"], item["place"]) == ("wanted", where)
    chosen = cli(*words, "--dry-run", "--manifest", item["manifest"][:8])
    assert (chosen.code, where in chosen.out) == (0, True)
    assert not Path(where).exists()
    assert cli(*words).out.splitlines()[-1] == f"in {where}"


def test_a_policy_lets_versions_go(store: Path, cli: Any) -> None:
    for name in ("gemm", "calibration"):
        cli("store", "push", str(RESULTS / f"{name}-h200.json"))
    cli("store", "tag", "gemm", "keep")
    policy = ("store", "gc", "--keep-last", "0", "--grace", "0s", "--where", "accelerator=h200")
    planned = cli(*policy, "kind=calibration", "--dry-run").out.splitlines()
    assert planned[1].split()[0] == "calibration/calibration-h200.json"
    assert planned[-1].startswith("would remove 1 version, 1 object, 1 manifest, 0 leftovers: ")
    removed = cli(*policy, "--json").data
    assert [row["item"] for row in removed["expired"]] == ["calibration/calibration-h200.json"]
    assert removed["spared"][0]["reason"] == "tagged keep"
    assert cli("store", "gc", "--older-than", "90d", "--json").data["expired"] == []
    assert cli("store", "status", "--json").data["versions"] == 1


def test_damage_is_named_with_exit_code_1(store: Path, cli: Any) -> None:
    cli("store", "push", str(RESULTS / "gemm-h200.json"))
    (path,) = (path for path in (store / "objects").rglob("*") if path.is_file())
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.write_bytes(content)
    verified = cli("store", "verify")
    assert verified.code == 1
    assert f"object     {path.name[:16]}  damaged  result/gemm-h200.json" in verified.out
    assert cli("store", "verify", "--json").data["damages"][0]["digest"] == path.name
    pulled = cli("store", "pull", "gemm-h200.json")
    assert (pulled.code, pulled.out) == (2, "")
    assert "is damaged\nhint: " in pulled.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("push",), "expected items or --all, got neither"),
        (("push", "x", "--all"), "expected items or --all, got both"),
        (("push", "pyproject.toml"), "expected a run, a trace, a recording"),
        (("init", "--store", "pyproject.toml"), "cannot be written: Not a directory"),
        (("list", "--store", "pyproject.toml"), "expected a folder, got a file"),
        (("tag", "nothing", "best"), "unknown item"),
        (("tag", "nothing", "two words"), "tag: expected"),
        (("push", "/nowhere/x"), "got nothing there"),
        (("push", str(RESULTS / "gemm-h200.json"), "--tag", "two words"), "tag: expected"),
        (("pull",), "expected an item or --where, got neither"),
        (("pull", "x", "--kind", "run"), "--kind run: expected --where, or no items, got x"),
        (("pull", "x", "y", "--manifest", "12"), "--manifest: expected one item"),
        (("pull", "--where", "color=red"), "unknown term"),
        (("pull", "run/nothing"), "unknown item"),
        (("pull", "walk/nothing"), "unknown kind of item"),
        (("pull", "run/../x"), "unknown kind of item"),
        (("find",), "expected terms such as model=llama, got none"),
        (("find", "kind=walk"), "unknown kind"),
        (("find", "--kind", "walk"), "unknown kind"),
        (("find", "verdict=great"), 'unknown verdict "great"'),
        (("find", "model~llama"), 'expected model=TEXT or model==TEXT, got the sign "~"'),
        (("find", "since=yesterday"), "since: expected a date"),
        (("find", "sha256=xyz"), "sha256: expected 4 to 64 hexadecimal digits"),
        (("gc", "--where", "model=llama"), "expected --keep-last or --older-than beside --where"),
        (("gc", "model=llama"), "expected terms after --where, got model=llama without it"),
        (("gc", "--keep-last", "-1"), "--keep-last: expected a whole number >= 0, got -1"),
        (("gc", "--older-than", "long"), "--older-than: expected a duration"),
        (("gc", "--keep-last", "1", "--where", "color=red"), "unknown term"),
        (("gc", "--grace", "soon"), "--grace: expected a duration"),
        (("list", "--limit", "-1"), "--limit: expected"),
        (
            ("status", "--store", "ftp://name:secret@host"),
            "expected a folder or one of s3://BUCKET/PREFIX",
        ),
        (("status", "--store", "s3://key:secret@bucket"), "without keys"),
        (("status", "--store", "/nowhere"), "is not a store"),
    ],
)
def test_bad_input_is_one_line(store: Path, cli: Any, words: tuple[str, ...], message: str) -> None:
    outcome = cli("store", *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err.splitlines()[0]
    assert "secret" not in outcome.err


def test_a_place_where_nothing_can_be_made_is_not_to_be_tried_again(store: Path, cli: Any) -> None:
    cli("store", "push", str(RESULTS / "gemm-h200.json"))
    for words in (("init", "--store", "/proc/store"), ("pull", "gemm", "--to", "/proc/x.json")):
        refused = cli("store", *words)
        assert refused.code == 2
        assert refused.err.splitlines()[1] == "hint: name a folder that is there, or can be made"


def test_without_a_store_the_variable_is_named(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSAY_STORE", raising=False)
    outcome = cli("store", "list")
    assert outcome.code == 2
    assert "ASSAY_STORE" in outcome.err

"""Retention: what a policy lets go, what stays whatever its age, and a removal that is cut short."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from store_items import Making

from assay.errors import InputError
from assay.improve.journal import faults
from assay.store import leases
from assay.store.collecting import collect
from assay.store.layout import SWEEPS, digest_of, open_store
from assay.store.leases import leased
from assay.store.manifest import Manifest, StoredFile
from assay.store.pulling import pull
from assay.store.pushing import manifest_of, push
from assay.store.refs import Ref, refs
from assay.store.retaining import Policy, Retention, retention
from assay.store.tagging import Tag, tag_item
from assay.store.verifying import verify_store

NOW = 1_000_000.0
DAY_S = 86_400.0


def stored(name: str, content: bytes = b"", **more: object) -> Manifest:
    file = StoredFile("a", len(content), digest_of(content), (digest_of(content),))
    options = {"kind": "run", "created_at": 0.0, "files": (file,), **more}
    return Manifest(name=name, **options)  # type: ignore[arg-type]


def kept(
    policy: Policy,
    manifests: Sequence[tuple[Manifest, float]],
    tags: Sequence[Tag] = (),
    pushed: Sequence[Manifest] = (),
) -> Retention:
    """What a policy comes to, of manifests with the time when each was pushed."""
    known = {
        Ref(manifest.kind, manifest.name, digest_of(manifest.content()), pushed_at): manifest
        for manifest, pushed_at in manifests
    }
    digests = {ref.manifest for ref in known}
    return retention(policy, known, digests, tags, pushed, NOW, lambda file: bool(file.size))


def names(outcome: Retention) -> list[str]:
    return sorted(ref.name for ref in outcome.expired)


@pytest.mark.parametrize(
    ("policy", "gone"),
    [
        (Policy(keep_last=1), ["first", "second"]),
        (Policy(keep_last=2), ["first"]),
        (Policy(keep_last=0), ["first", "qwen", "second", "third"]),
        (Policy(older_than_s=4 * DAY_S), ["first", "qwen"]),
        (Policy(keep_last=1, older_than_s=4 * DAY_S), ["first"]),
        (Policy(keep_last=9, older_than_s=DAY_S), []),
    ],
)
def test_the_last_of_each_model_stay_and_what_is_young(policy: Policy, gone: list[str]) -> None:
    ages_s = {"first": 5 * DAY_S, "second": 3 * DAY_S, "third": 2 * DAY_S}
    runs = [
        (stored(name, taxonomy={"model": "llama"}, created_at=NOW - age_s), NOW - age_s)
        for name, age_s in ages_s.items()
    ]
    qwen = stored("qwen", taxonomy={"model": "qwen"}, created_at=NOW - 9 * DAY_S)
    assert names(kept(policy, [*runs, (qwen, NOW - 5 * DAY_S)])) == gone


def test_what_was_pushed_lately_is_young() -> None:
    old = stored("old", created_at=0.0)
    for pushed_at, gone in ((NOW - 60.0, []), (NOW - 2 * DAY_S, ["old"])):
        assert names(kept(Policy(older_than_s=DAY_S), [(old, pushed_at)])) == gone


def test_what_somebody_relies_on_stays() -> None:
    signature = StoredFile("report.sig", 1, digest_of(b"s"), (digest_of(b"s"),))
    no_signature = StoredFile("report.sig", 0, digest_of(b""), ())
    original, copied = stored("original", b"original"), digest_of(b"original")
    manifests = [
        stored("plain"),
        stored("tagged"),
        stored("signed", files=(signature,)),
        stored("garbage", files=(no_signature,)),
        stored("pushed", b"older"),
        original,
        # A copy of the original, which goes unless somebody keeps it, and a copy of that copy.
        stored("copy", b"copy", redaction={"files": {"a": copied}}),
        stored("last", b"last", redaction={"files": {"a": digest_of(b"copy")}}),
    ]
    outcome = kept(
        Policy(keep_last=0),
        [(manifest, 0.0) for manifest in manifests],
        [Tag("run", "tagged", "keep"), Tag("run", "last", "keep"), Tag("run", "plain", "nightly")],
        [stored("pushed", b"newer")],
    )
    assert names(outcome) == ["garbage", "plain"]
    assert {spared.item: spared.reason for spared in outcome.spared} == {
        "run/tagged": "tagged keep",
        "run/last": "tagged keep",
        "run/signed": "its report is signed",
        "run/pushed": "a push of it is under way",
        "run/copy": "a redacted copy states its hashes",
        "run/original": "a redacted copy states its hashes",
    }
    alone = kept(Policy(keep_last=0), [(original, 0.0), (manifests[6], 0.0)])
    assert names(alone) == ["copy", "original"]
    coming = kept(Policy(keep_last=0), [(original, 0.0)], pushed=[manifests[6]])
    assert names(coming) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Policy(terms=["model=llama"]), "expected --keep-last or --older-than"),
        (lambda: Policy(keep_last=-1), "--keep-last: expected a whole number >= 0, got -1"),
    ],
)
def test_a_policy_that_says_nothing_is_refused(make: Callable[[], Policy], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.fixture
def nightly(place: str, make_item: Making) -> str:
    """A store of four runs, which share an object, and a trace that has it too."""
    shared = {"shared": b"shared" * 100}
    for number in range(4):
        own = {"own": f"run {number}".encode(), **shared}
        push([make_item(f"run-{number}", own, created_at=float(number))], place, tags=["nightly"])
    push([make_item("trace", shared, kind="trace")], place)
    return place


def items(place: str) -> set[str]:
    return {ref.item for ref in refs(open_store(place))}


def test_versions_go_with_what_nothing_else_needs(nightly: str, tmp_path: Path) -> None:
    policy = Policy(keep_last=1, terms=["kind=run", "tag=nightly"])
    planned = collect(nightly, grace_s=0.0, dry_run=True, policy=policy)
    assert len(items(nightly)) == 5
    done = collect(nightly, grace_s=0.0, policy=policy)
    for collected in (planned, done):
        assert [each.item for each in collected.expired] == ["run/run-2", "run/run-1", "run/run-0"]
        assert (collected.objects, collected.manifests) == (3, 3)
    assert items(nightly) == {"run/run-3", "trace/trace"}
    assert verify_store(nightly).is_verified
    pull("run-3", nightly, to=tmp_path / "back")
    assert collect(nightly, grace_s=0.0, policy=policy).expired == []


def test_objects_of_what_goes_wait_for_the_grace_period(nightly: str) -> None:
    collected = collect(nightly, policy=Policy(keep_last=0, terms=["kind=run"]))
    assert (len(collected.expired), collected.objects, collected.waiting) == (4, 0, 4)
    assert collect(nightly, grace_s=0.0).objects == 4
    assert items(nightly) == {"trace/trace"}


def test_a_removal_that_is_cut_short_leaves_a_whole_store(
    nightly: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Policy(keep_last=1, terms=["kind=run"])
    cuts = 0
    while True:
        faults.reached.clear()
        # One more step each time, so every step is the last one of a removal.
        monkeypatch.setenv(faults.VARIABLE, "store.removed=error@1")
        try:
            collect(nightly, grace_s=0.0, policy=policy)
        except faults.InjectedFaultError:
            cuts += 1
            monkeypatch.delenv(faults.VARIABLE)
            assert verify_store(nightly).is_verified
            assert {"run/run-3", "trace/trace"} <= items(nightly)
            continue
        break
    # Refs, manifests and objects of three runs, and the tag of each.
    assert cuts == 4 * 3
    assert items(nightly) == {"run/run-3", "trace/trace"}


def test_a_version_that_is_being_pushed_stays(nightly: str, make_item: Making) -> None:
    item = make_item("run-0", {"own": b"again"})
    store = open_store(nightly)
    with leased(store, manifest_of(item), lambda text: None, wait_s=1.0):
        collected = collect(nightly, grace_s=0.0, policy=Policy(keep_last=0, terms=["kind=run"]))
    assert [spared.reason for spared in collected.spared] == ["a push of it is under way"]
    assert items(nightly) == {"run/run-0", "trace/trace"}


def test_the_tag_keep_waits_for_a_removal_under_way(
    nightly: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_LOOK_S", 0.01)
    store = open_store(nightly)
    sweep = leases.Sweep(store)
    tagging = threading.Thread(target=tag_item, args=("run/run-0", ["keep"], (), nightly))
    tagging.start()
    tagging.join(0.3)
    assert tagging.is_alive()
    sweep.end()
    tagging.join(60.0)
    assert not list(store.backend.entries(SWEEPS))
    collected = collect(nightly, grace_s=0.0, policy=Policy(keep_last=0))
    assert [spared.item for spared in collected.spared] == ["run/run-0"]

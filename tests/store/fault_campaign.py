"""Faults on purpose, one after the other, and what must hold after each: nothing that was acknowledged is
lost, nothing damaged is believed, nothing is half-written, and the same command goes on afterwards."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import fault_worker
from fault_worker import item_in
from s3_server import S3Server

from assay.store.backend import StoreError
from assay.store.collecting import collect
from assay.store.finding import remove_item
from assay.store.layout import MANIFESTS, OBJECTS, init_store, open_store
from assay.store.places import open_backend
from assay.store.pulling import pull
from assay.store.pushing import push_item
from assay.store.refs import refs
from assay.store.tagging import tags_of
from assay.store.verifying import verify_store

KEPT = 6
"""Items of a store at most; older ones are removed, so that a check stays cheap."""
POINTS = (
    *("store.leased", "store.half", "store.unnamed", "store.named", "store.object"),
    *("store.manifest", "store.ref", "store.tag"),
)
WRITING = ("store.half", "store.unnamed", "store.named")


class Campaign:
    """A store in a folder, or in the bucket of a server in this process, under faults."""

    def __init__(self, folder: Path, seed: int, server: S3Server | None = None) -> None:
        self._folder = folder
        self._random = random.Random(seed)
        self._server = server
        self.place = (
            str(folder / "store") if server is None else f"{server.scheme}://bucket/{folder.name}"
        )
        self.injected: Counter[str] = Counter()
        """Faults by kind."""
        self.outcomes: Counter[str] = Counter()
        """What became of the processes: killed, refused with one line, or done all the same."""
        self._acknowledged: dict[str, dict[str, dict[str, bytes]]] = {}
        """Files by manifest by item, of every push that said it was done."""
        self._number = 0
        sources = [str(Path(fault_worker.__file__).parent), *sys.path]
        self._worker = subprocess.Popen(
            [sys.executable, fault_worker.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sources))},
        )
        init_store(self.place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._worker.stdin and self._worker.stdout:
            self._worker.stdin.close()
            self._worker.stdout.close()
        self._worker.wait(30)

    def inject(self, number: int, end_s: float = math.inf) -> None:
        """Inject faults of random kinds until so many have struck: a point may not be reached."""
        kinds = [self.kill, self.kill, self.full_disk, self.writers, self.flip, self.kill_pull]
        if self._server is not None:
            kinds = [self.kill, self.cut, self.cut, self.writers, self.flip, self.kill_pull]
        kinds.append(self.retain)
        while self.injected.total() < number and time.monotonic() < end_s:
            kind = self._random.choice(kinds)
            self.injected[kind.__name__] += kind()
            self._check()
            self._trim()

    def kill(self) -> bool:
        """SIGKILL at a point between two writes, in the middle of one, or at any time."""
        folder = self._item()
        task: dict[str, Any] = self._pushing(folder)
        if self._random.random() < 0.8:
            points = POINTS if self._server is None else [p for p in POINTS if p not in WRITING[:2]]
            self._fault(task, self._random.choice(points), "kill")
        else:
            task["kill_after_s"] = self._random.uniform(0.0, 0.02)
        result = self._run(task)[0]
        self._took(folder, result)
        self._again(folder)
        return "signal" in result

    def full_disk(self) -> bool:
        """No space at a point, or files that may not grow beyond some bytes."""
        folder = self._item()
        task = self._pushing(folder)
        if self._random.random() < 0.5:
            self._fault(task, self._random.choice(WRITING), "full")
        else:
            task["most_file_bytes"] = self._random.choice((1, 100, 400, 511, 600))
        result = self._run(task)[0]
        self._took(folder, result)
        self._again(folder)
        return "error" in result

    def cut(self) -> bool:
        """A connection that is lost before or after a request is done, or in its answer."""
        assert self._server is not None
        folder = self._item()
        first = self._server.requests + self._random.randrange(1, 30)
        length = self._random.choice((1, 1, 2, 1000))
        kind = self._random.choice(("before", "after", "half", "error"))
        self._server.fault = lambda number, method: (
            kind if first <= number < first + length else None
        )
        result = self._run(self._pushing(folder))[0]
        has_struck = self._server.requests >= first
        self._server.fault = lambda number, method: None
        self._took(folder, result)
        self._again(folder)
        return has_struck

    def writers(self) -> bool:
        """Two who push one name at once, the same or not, while garbage is removed."""
        first = self._item()
        second = first.parent / "other"
        shutil.copytree(first, second)
        if self._random.random() < 0.7:
            (second / "a").write_bytes(self._random.randbytes(700))
        tasks = [self._pushing(first), self._pushing(second)]
        gc = {"action": "gc", "place": self.place, "grace_s": 0.0, "environment": {}}
        results = self._run(*tasks, gc, gc)
        for folder, result in zip((first, second), results[:2], strict=True):
            assert "manifest" in result, result
            self._took(folder, result)
        assert "objects" in results[2], results
        return True

    def retain(self) -> bool:
        """A policy that lets all versions of a name go but the last, cut short, while another is pushed."""
        first = self._item()
        name = first.parent.name
        self._took(first, self._run(self._pushing(first))[0])
        second = self._written(name, {"a": self._random.randbytes(700)})
        gc = {"action": "gc", "place": self.place, "grace_s": 0.0, "terms": [f"name=={name}"]}
        self._fault(gc, "store.removed", "error")
        pushed, collected = self._run(self._pushing(second), gc)
        assert "manifest" in pushed, pushed
        self._took(second, pushed)
        left = {ref.manifest for ref in refs(open_store(self.place), f"run/{name}/")}
        assert left, "the last version was removed"
        versions = self._acknowledged[name]
        self._acknowledged[name] = {key: versions[key] for key in left if key in versions}
        return "crash" in collected

    def flip(self) -> bool:
        """A bit that flips, a file that is cut or gone: refused, named, and mended by a push."""
        if not self._acknowledged:
            return False
        backend = open_backend(self.place)
        needed = sorted(
            entry.key for prefix in (OBJECTS, MANIFESTS) for entry in backend.entries(prefix)
        )
        key = self._random.choice(needed)
        content = bytearray(backend.read(key) or b"")
        kind = self._random.choice(("flip", "cut", "gone"))
        if kind == "gone" or not content:
            backend.remove(key)
        elif kind == "cut":
            backend.replace(key, bytes(content[: self._random.randrange(len(content))]))
        else:
            content[self._random.randrange(len(content))] ^= 1 << self._random.randrange(8)
            backend.replace(key, bytes(content))
        damages = verify_store(self.place).damages
        digest = key.rpartition("/")[2]
        named = {item for damage in damages for item in damage.items}
        assert [damage.digest for damage in damages] in ([digest], []), damages
        affected = [
            (name, manifest, files)
            for name, versions in self._acknowledged.items()
            for manifest, files in versions.items()
            if manifest == digest or digest in self._objects(files)
        ]
        for name, manifest, _ in affected:
            assert f"run/{name}" in named
            # A new place each time: a pull goes on with files that an earlier one has fetched whole.
            self._number += 1
            target = self._folder / f"damaged-{self._number}"
            try:
                pull(name, self.place, to=target, version=manifest)
            except StoreError:
                assert not target.exists()
            else:
                raise AssertionError("damaged bytes were believed")
        for name, _, files in affected:
            push_item(open_store(self.place), item_in(self._written(name, files)))
        if damages and not named:
            verify_store(self.place, discard=True)
        return True

    def kill_pull(self) -> bool:
        """SIGKILL in the middle of a pull: nothing appears, and the next pull goes on."""
        if not self._acknowledged:
            return False
        name = self._random.choice(sorted(self._acknowledged))
        target = self._folder / "pulled" / name
        task = {"action": "pull", "place": self.place, "item": name, "to": str(target)}
        task["environment"] = {}
        self._fault(task, "store.pulled", "kill")
        result = self._run(task)[0]
        assert "crash" not in result, result
        whole = self._acknowledged[name].values()
        assert not target.exists() or self._files(target) in whole
        pull(name, self.place, to=target)
        assert self._files(target) in whole
        shutil.rmtree(target.parent)
        return "signal" in result

    def _item(self) -> Path:
        """A folder of a few files; often an item that was pushed before, with other content."""
        self._number += 1
        known = sorted(self._acknowledged)
        is_known = known and self._random.random() < 0.3
        name = self._random.choice(known) if is_known else f"item-{self._number}"
        files = {
            letter: self._random.randbytes(self._random.choice((0, 10, 512, 1300)))
            for letter in "abc"[: self._random.randrange(1, 4)]
        }
        return self._written(name, files)

    def _written(self, name: str, files: dict[str, bytes]) -> Path:
        folder = self._folder / "items" / name / "files"
        shutil.rmtree(folder.parent, ignore_errors=True)
        folder.mkdir(parents=True)
        for path, content in files.items():
            (folder / path).write_bytes(content)
        return folder

    def _pushing(self, folder: Path) -> dict[str, Any]:
        return {"action": "push", "place": self.place, "folder": str(folder), "environment": {}}

    def _fault(self, task: dict[str, Any], point: str, action: str) -> None:
        task["environment"] = {
            "ASSAY_FAULT": f"{point}={action}@{self._random.choice((1, 1, 1, 2, 2, 3, 5, 8))}"
        }

    def _run(self, *tasks: dict[str, Any]) -> list[dict[str, Any]]:
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.write(json.dumps(tasks) + "\n")
        self._worker.stdin.flush()
        return list(json.loads(self._worker.stdout.readline()))

    def _took(self, folder: Path, result: dict[str, Any]) -> None:
        """Note what a push said: an error is one line with exit code 2."""
        assert "crash" not in result, result
        if "manifest" in result:
            versions = self._acknowledged.setdefault(folder.parent.name, {})
            versions[result["manifest"]] = self._files(folder)
            self.outcomes["done"] += 1
        elif "error" in result:
            assert "\n" not in result["error"]
            assert result["code"] == 2
            assert result["hint"]
            self.outcomes["refused"] += 1
        else:
            self.outcomes["killed"] += 1

    def _again(self, folder: Path) -> None:
        """The same push without a fault ends well, and what was there is what it says."""
        result = self._run(self._pushing(folder))[0]
        assert "manifest" in result, result
        self._took(folder, result)

    def _check(self) -> None:
        """Every ref leads to something whole, and what was acknowledged is as it was."""
        verified = verify_store(self.place)
        assert verified.damages == []
        known = {(ref.name, ref.manifest) for ref in refs(open_store(self.place))}
        for name, versions in self._acknowledged.items():
            assert {(name, manifest) for manifest in versions} <= known, "an item was lost"
            assert set(tags_of(open_store(self.place), "run", name)) == {"campaign", "a/b"}
        if not self._acknowledged:
            return
        name = self._random.choice(sorted(self._acknowledged))
        manifest, files = self._random.choice(sorted(self._acknowledged[name].items()))
        target = self._folder / "checked"
        pull(name, self.place, to=target, version=manifest)
        assert self._files(target) == files
        shutil.rmtree(target)

    def _trim(self) -> None:
        """Remove the oldest items, and now and then the garbage of all."""
        while len(self._acknowledged) > KEPT:
            name = next(iter(self._acknowledged))
            del self._acknowledged[name]
            remove_item(f"run/{name}", self.place)
        if self._random.random() < 0.2:
            collect(self.place, grace_s=0.0)
            self._check()

    @staticmethod
    def _files(folder: Path) -> dict[str, bytes]:
        paths = [path for path in folder.rglob("*") if path.is_file()]
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}

    @staticmethod
    def _objects(files: dict[str, bytes]) -> set[str]:
        from assay.store.layout import digest_of

        step = fault_worker.OBJECT_BYTES
        return {
            digest_of(content[start : start + step])
            for content in files.values()
            for start in range(0, len(content), step)
        }

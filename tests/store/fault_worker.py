"""Runs commands of the store in processes of their own, which may be killed or get no disk.

One line of JSON is a list of tasks that run at once; the answer is a line with a result for each. The
program is one thread, so that a fork of it is clean, and has imported what the tasks need.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from assay.errors import AssayError
from assay.improve.journal import faults
from assay.store import bucket, layout, manifest, pushing
from assay.store.collecting import collect
from assay.store.describing import Item
from assay.store.layout import open_store
from assay.store.pulling import pull
from assay.store.pushing import push_item
from assay.store.retaining import Policy

OBJECT_BYTES = 512
"""Small, so that small files are many objects."""


def use_small_objects() -> None:
    for module in (layout, manifest, pushing):
        module.OBJECT_BYTES = OBJECT_BYTES  # type: ignore[attr-defined]
    # A failure is what is tested; waiting for the next attempt is not.
    bucket._RETRIES = 0


def item_in(folder: Path) -> Item:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): path for path in paths}
    return Item("run", folder.parent.name, 1.0, files)


def _done(task: dict[str, Any]) -> dict[str, Any]:
    if task["action"] == "push":
        item, store = item_in(Path(task["folder"])), open_store(task["place"])
        sent = push_item(store, item, tags=["campaign", "a/b"], wait_s=30.0)
        return {"manifest": sent.manifest}
    if task["action"] == "pull":
        return {"place": pull(task["item"], task["place"], to=Path(task["to"])).place}
    policy = Policy(keep_last=1, terms=task["terms"]) if "terms" in task else None
    return {"objects": collect(task["place"], grace_s=task["grace_s"], policy=policy).objects}


def _child(task: dict[str, Any], out: int) -> None:
    os.environ.update(task.get("environment") or {})
    faults.reached.clear()
    if limit := task.get("most_file_bytes"):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        result = _done(task)
    except AssayError as error:
        result = {"error": error.message, "hint": error.hint, "code": error.exit_code}
    except BaseException as error:
        result = {"crash": repr(error)}
    os.write(out, json.dumps(result).encode())
    os._exit(0)


def _start(task: dict[str, Any]) -> tuple[int, int, float | None]:
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        try:
            _child(task, writing)
        finally:
            os._exit(3)
    os.close(writing)
    return process, reading, task.get("kill_after_s")


def _result(process: int, reading: int) -> dict[str, Any]:
    with os.fdopen(reading, "rb") as file:
        text = file.read()
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    return dict(json.loads(text)) if text else {"crash": f"status {status}"}


def main() -> None:
    use_small_objects()
    for line in sys.stdin:
        children = [_start(task) for task in json.loads(line)]
        for process, _, kill_after_s in children:
            if kill_after_s is not None:
                time.sleep(kill_after_s)
                os.kill(process, signal.SIGKILL)
        results = [_result(process, reading) for process, reading, _ in children]
        sys.stdout.write(json.dumps(results) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

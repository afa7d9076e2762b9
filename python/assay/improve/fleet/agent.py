"""The agent on a replica's node: owns its journal, and goes back by itself when nobody speaks to it.

The controller starts it (`python -m assay.improve.fleet.agent`, here or over a remote shell) and talks to
it by lines. Every change is in the node's journal, with its inverse, before it is made. A controller
that is gone, or silent for longer than the lease, or past the deadline, makes the agent go back; an agent
that dies leaves that to its watchdog, and both to the next `assay` command on the node.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from assay.errors import AssayError, InputError
from assay.http_client import ServerError
from assay.improve.engines.http import HttpEngine
from assay.improve.engines.protocol import EngineLostError
from assay.improve.experiments.settings_check import mismatches
from assay.improve.fleet.lines import LineReader, send
from assay.improve.fleet.protocol import ReplicaFailedError, ReplicaRefusedError, Sample
from assay.improve.journal import active, run_folder
from assay.improve.journal.guard import guarded
from assay.improve.journal.journal import Journal
from assay.improve.journal.journaled_engine import JournaledEngine
from assay.improve.journal.recovery import recover
from assay.improve.journal.run_folder import RunFolder, configuration_hash
from assay.load.metrics import is_good, succeeded
from assay.load.workloads.measurement import Measurement, Setting
from assay.load.workloads.reading import read_requests
from assay.load.workloads.workload import Window, Workload, is_greedy
from assay.openai_api.address import ServerAddress
from assay.openai_api.answers import MODELS, served_model
from assay.openai_api.exchange import exchange_json

MODULE: Final = "assay.improve.fleet.agent"
LEASE_S: Final = 60.0
"""How long a controller may be silent, where it does not say."""
OPENING_S: Final = 120.0
"""How long the first message may take."""
REACH_S: Final = 10.0
HASH_DIGITS: Final = 16
"""Hexadecimal digits of an answer's hash that travel: enough that no two answers share them."""
WORKLOAD: Final = "workload.jsonl"
AT_THE_START: Final = "the configuration at the start"


class Agent:
    """One replica, from `open` to `close`."""

    def __init__(self, reader: LineReader, output: int) -> None:
        """Talk over these."""
        self._reader = reader
        self._output = output
        self._lease_s = LEASE_S
        self._deadline = float("inf")
        self._wait_s = 0.0
        self._is_kept = False

    def serve(self) -> int:
        """Answer messages until the end; whatever that is, the engine is in a safe state."""
        message = self._reader.read(OPENING_S)
        if message is None:
            return 1
        if message.get("do") == "rollback":
            return self._roll_back(message)
        try:
            engine, run, workload = self._opened(message)
        except AssayError as error:
            self._refuse(message, error)
            return error.exit_code
        with Journal.create(run.path) as journal, guarded(engine, run, journal) as own:
            journal.append("started", command="fleet agent", engine=message["url"])
            start = dict(own.declare_safe(AT_THE_START))
            self._reply(message, run=str(run.path), settings=start, **_description(engine))
            why = self._converse(own, workload, start)
            if why:
                # Staggered: replicas that go back all at once would leave nobody to serve.
                time.sleep(self._wait_s if own.stack else 0.0)
                own.revert(why, automatic=bool(own.stack))
            elif own.stack:
                own.revert("the promotion ended without keeping the change")
            own.close()
            settings = dict(own.settings())
            journal.append(
                "finished",
                verdict="promoted" if self._is_kept else "as at the start",
                settings=settings,
                hash=configuration_hash(settings),
                reason=why or "closed by the controller",
            )
        return 0

    def _converse(
        self, own: JournaledEngine, workload: Workload, start: Mapping[str, Setting]
    ) -> str:
        """Answer until the controller closes; why to go back where it did not."""
        while True:
            left = min(self._lease_s, self._deadline - time.monotonic())
            try:
                message = self._reader.read(left)
            except EOFError:
                return "the controller is gone"
            if message is None:
                past = time.monotonic() >= self._deadline
                return "the deadline has passed" if past else "the controller is silent"
            try:
                if message.get("do") == "close":
                    self._reply(message)
                    return ""
                self._reply(message, **self._do(own, workload, start, message))
            except BrokenPipeError:
                return "the controller is gone"
            except AssayError as error:
                self._refuse(message, error)

    def _do(
        self,
        own: JournaledEngine,
        workload: Workload,
        start: Mapping[str, Setting],
        message: Mapping[str, Any],
    ) -> dict[str, Any]:
        what = message.get("do")
        if what == "beat":
            # Also for the watchdog, which takes an agent for hung that asks nothing of its engine:
            # restarts of a large fleet leave some of it waiting for long.
            own.settings()
            return {}
        if what == "apply":
            self._wait_s = float(message["wait_s"])
            return {"settings": _apply(own, message["changes"])}
        if what == "revert":
            self._go_back(own, start, str(message["why"]))
            return {"settings": dict(own.settings())}
        if what == "restart":
            if own.stack:
                own.revert("drawn for the control")
                return {"settings": dict(own.settings())}
            # The values that are in force, asked for again: a start like that of the treatment.
            now = own.settings()
            return {"settings": _apply(own, {name: now[name] for name in message["changes"]})}
        if what == "measure":
            window = Window(seconds=float(message["seconds"]), offset=int(message["offset"]))
            measured = own.measure(loaded(workload, float(message["load"])), window)
            return {"sample": asdict(sample_of(measured, workload))}
        if what == "keep":
            own.declare_safe(str(message["why"]))
            self._is_kept, self._deadline = True, float("inf")
            return {}
        raise InputError(f"message: expected one that an agent knows, got {str(what)[:40]!r}")

    def _go_back(self, own: JournaledEngine, start: Mapping[str, Setting], why: str) -> None:
        """To the settings of the start, also from what was kept."""
        own.revert(why)
        if not self._is_kept:
            return
        now = own.settings()
        _apply(own, {name: value for name, value in start.items() if now.get(name) != value})
        own.declare_safe(why)
        self._is_kept = False

    def _opened(self, message: Mapping[str, Any]) -> tuple[HttpEngine, RunFolder, Workload]:
        """Take over the replica; nothing is changed yet."""
        url = str(message["url"])
        self._lease_s = float(message["lease_s"])
        self._deadline = time.monotonic() + float(message["deadline_s"])
        address = ServerAddress(url, "--replicas")
        try:
            served_model(url, exchange_json(address, MODELS, timeout_s=REACH_S))
        except (ServerError, ValueError) as error:
            said = error.message if isinstance(error, ServerError) else str(error)
            raise ReplicaRefusedError(
                f"{url}: expected a server that answers, got: {said}",
                "every replica must serve before a promotion begins",
            ) from None
        run = run_folder.create(
            f"{address.host} {address.place.effective_port}",
            run_folder.runs_folder() / run_folder.REPLICAS_NAME,
        )
        (run.path / WORKLOAD).write_text(str(message["workload"]), "utf-8")
        engine = HttpEngine(
            url, message["restart"], adapter=message["adapter"], folder=run.logs, say=_say
        )
        return engine, run, read_requests(run.path / WORKLOAD)

    def _roll_back(self, message: Mapping[str, Any]) -> int:
        """Undo what an earlier agent of this node kept."""
        run = RunFolder(Path(str(message["run"])))
        try:
            if any(other.run.id == run.id and other.is_attended for other in active.active_runs()):
                raise InputError(f"run {run.id} is under way: expected one that has ended")
            done = recover(run, "assay rollback", "asked for", to_start=True)
        except AssayError as error:
            self._refuse(message, error)
            return error.exit_code
        self._reply(message, sentence=done.sentence, action=done.action, problems=done.problems)
        return 0

    def _reply(self, message: Mapping[str, Any], **data: Any) -> None:
        send(self._output, {"id": message.get("id"), **data})

    def _refuse(self, message: Mapping[str, Any], error: AssayError) -> None:
        failure = error.failure if isinstance(error, EngineLostError) else ""
        told = {"message": error.message, "hint": error.hint, "code": error.exit_code}
        try:
            send(self._output, {"id": message.get("id"), "error": told, "failure": failure})
        except BrokenPipeError:
            # Nobody is left to be told; the next read says so.
            return


def _apply(own: JournaledEngine, changes: Mapping[str, Setting]) -> dict[str, Setting]:
    """Make a change and read it back; an engine that states other values has not made it."""
    if changes:
        own.configure(changes)
    settings = dict(own.settings())
    for name, (wanted, stated) in mismatches(changes, settings).items():
        raise ReplicaFailedError(
            f"{name}: expected {wanted!r} after the restart, the engine states {stated!r}",
            "an engine that does not take a setting, or states another, is not promoted",
        )
    return settings


def loaded(workload: Workload, load: float) -> Workload:
    """The workload with its rate or its concurrency multiplied, as with fewer replicas."""
    if load == 1.0:
        return workload
    requests = tuple(
        replace(request, arrival_s=request.arrival_s / load) for request in workload.requests
    )
    concurrency = None if workload.concurrency is None else -int(-workload.concurrency * load // 1)
    rate = None if workload.rate is None else workload.rate * load
    return replace(workload, requests=requests, concurrency=concurrency, rate=rate)


def sample_of(measured: Measurement, workload: Workload) -> Sample:
    """What the controller is told of a window."""
    done = [record for record in measured.records if succeeded(record)]
    count = len(workload.requests)
    return Sample(
        measured.figures.get(workload.objective.metric, 0.0),
        len(measured.records),
        len(measured.records) - len(done),
        int(is_good(done, workload.slo).sum()),
        dict(measured.figures),
        dict(measured.settings),
        {
            str(record.number): record.digest[:HASH_DIGITS]
            for record in done
            if record.digest and is_greedy(workload.requests[record.number % count])
        },
    )


def _description(engine: HttpEngine) -> dict[str, Any]:
    description = engine.describe()
    return {
        "engine": description.engine,
        "release": description.release,
        "model": description.model,
        "device": description.device.partition(":")[0],
        "hardware": {
            name: value
            for name, value in description.hardware.items()
            # The GPU's number is a place, not a kind.
            if isinstance(value, str | int) and name != "device"
        },
        "context_limit": description.context_limit,
        "knobs": sorted(engine.knobs()),
        "start_timeout_s": engine.adapter.start_timeout_s,
        "notes": list(description.degradations),
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Talk over stdin and stdout; everything else that is printed goes to stderr."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        return Agent(LineReader(0), output).serve()
    except (EOFError, BrokenPipeError):
        return 0


if __name__ == "__main__":
    sys.exit(main())

"""A fleet of agents: opened and compared, started in waves, measured at the same time, brought back."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from assay.answers import Progress, silent
from assay.errors import AssayError
from assay.improve.experiments.settings_check import mismatches
from assay.improve.fleet.agent import LEASE_S
from assay.improve.fleet.node import Node, start_agent
from assay.improve.fleet.protocol import (
    ReplicaFailedError,
    ReplicaLostError,
    ReplicaRefusedError,
    Sample,
)
from assay.load.workloads.measurement import Setting
from assay.openai_api.address import ServerAddress

Result = TypeVar("Result")

ANSWER_S: Final = 120.0
"""How long an agent may take for what needs no restart."""
WINDOWS: Final = 4.0
"""Times its length that a window may take: the last requests are waited for."""
LOST_S: Final = 10.0
"""How long the agent of a lost node is waited for."""
EQUAL: Final = ("engine", "release", "model", "device", "hardware", "context_limit", "knobs")
"""What replicas must have in common, besides their settings."""


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """What is asked of a fleet."""

    urls: Sequence[str]
    changes: Mapping[str, Setting]
    restart: str
    """With {settings}, and {port}, {host} and {number} where they differ."""
    workload: str
    """The requests, as `archive.save` writes them."""
    window_s: float
    deadline_s: float
    adapter: str | None = None
    node_python: str | None = None
    by_actors: bool = False
    """Agents are held by actors of the Ray cluster that this process is a job of."""
    lease_s: float = LEASE_S
    seed: int = 0


@dataclass(slots=True)
class AgentFleet:
    """Implements the protocol of fleets; use `opened`."""

    plan: FleetPlan
    nodes: dict[str, Node]
    say: Progress = silent
    out: int = 1
    """Replicas that may be out at once; one until the capacity guard has measured."""
    descriptions: dict[str, dict[str, Any]] = field(default_factory=dict)
    _windows: int = 0
    _waves: int = 0
    _start_s: float = 0.0
    """The longest that a wave took to serve again."""

    @property
    def names(self) -> Sequence[str]:
        """The addresses."""
        return list(self.nodes)

    def start(self, changed: Mapping[str, bool]) -> None:
        """Start replicas anew in waves; in each as many with the change as without, where it fits."""
        changes = dict(self.plan.changes)
        places = {name: place for place, name in enumerate(self.names)}

        def begin(name: str) -> None:
            node = self.nodes[name]
            if changed[name]:
                # Replicas that go back by themselves do so in waves too.
                wait_s = places[name] // self.out * self._start_s
                node.ask("apply", self.restart_s(node), changes=changes, wait_s=wait_s)
                return
            node.ask("restart", self.restart_s(node), changes=changes)

        for wave in self._in_waves(changed):
            self.say(f"starting {', '.join(wave)}")
            begun = time.monotonic()
            at_once(wave, begin)
            self._start_s = max(self._start_s, time.monotonic() - begun)

    def measure(self, names: Collection[str], load: float = 1.0) -> dict[str, Sample]:
        """The same requests on each, at the same time."""
        self._windows += 1
        seconds, offset = self.plan.window_s, self._windows - 1

        def window(name: str) -> Sample:
            return self.nodes[name].sample(
                ANSWER_S + WINDOWS * seconds, seconds=seconds, offset=offset, load=load
            )

        samples = at_once(names, window)
        if load == 1.0:
            self._check_settings(samples)
        return samples

    def revert(self, why: str) -> list[str]:
        """Every replica that answers goes back; the others do so by their own journals."""
        return self._try_each(
            lambda node: node.ask("revert", self.restart_s(node), why=why), "does not go back"
        )

    def keep(self, why: str) -> None:
        """The change becomes what replicas come back to."""
        at_once(self.names, lambda name: self.nodes[name].ask("keep", ANSWER_S, why=why))

    def close(self) -> list[str]:
        """End the agents in waves; each leaves its server without the run's instrumentation."""

        def end(node: Node) -> None:
            node.close(ANSWER_S)
            if not node.wait(self.restart_s(node)):
                raise ReplicaLostError(f"{node.name}: its agent does not end")

        return self._try_each(end, "was not closed")

    def _try_each(self, call: Callable[[Node], object], failing: str) -> list[str]:
        problems: list[str] = []

        def attempt(name: str) -> None:
            node = self.nodes[name]
            if node.is_lost:
                return
            try:
                call(node)
            except AssayError as error:
                problems.append(f"{failing}: {error.message}")

        for wave in self._in_waves(dict.fromkeys(self.names, True)):
            at_once(wave, attempt)
        return problems

    def _in_waves(self, changed: Mapping[str, bool]) -> Iterator[list[str]]:
        """In random order, with and without the change in turn."""
        self._waves += 1
        chance = random.Random(f"waves {self.plan.seed} {self._waves}")
        groups = [[name for name in changed if changed[name] is had] for had in (True, False)]
        for group in groups:
            chance.shuffle(group)
        order: list[str] = []
        while any(groups):
            order += [group.pop() for group in groups if group]
        for first in range(0, len(order), self.out):
            yield order[first : first + self.out]

    def _check_settings(self, samples: Mapping[str, Sample]) -> None:
        """Every window ran with settings that some start asked for: those of before, or the change."""
        for name, sample in samples.items():
            start = self.descriptions[name]["settings"]
            for wanted in (start, {**start, **self.plan.changes}):
                if not mismatches(wanted, sample.settings):
                    break
            else:
                knob, (asked, stated) = next(iter(mismatches(start, sample.settings).items()))
                raise ReplicaFailedError(
                    f"{name}: {knob}: expected {asked!r}, the engine states {stated!r} in a window"
                )

    def restart_s(self, node: Node) -> float:
        """How long a start may take."""
        # With the change, and where that fails with the former settings again.
        return ANSWER_S + 2 * node.start_timeout_s


def at_once(names: Collection[str], call: Callable[[str], Result]) -> dict[str, Result]:
    """Call for all at the same time; the first failure is raised when all are done."""
    with ThreadPoolExecutor(max(len(names), 1)) as pool:
        futures = {name: pool.submit(call, name) for name in names}
    return {name: future.result() for name, future in futures.items()}


@contextmanager
def opened(plan: FleetPlan, logs: Path, say: Progress = silent) -> Iterator[AgentFleet]:
    """Agents for all replicas, which serve and are alike; a thread tells them that we live."""
    logs.mkdir(parents=True, exist_ok=True)
    fleet = AgentFleet(plan, {}, say)
    done = threading.Event()

    def beat() -> None:
        while not done.wait(plan.lease_s / 4):
            for node in list(fleet.nodes.values()):
                node.beat()

    thread = threading.Thread(target=beat, name="assay-fleet-beat", daemon=True)
    try:
        for number, url in enumerate(plan.urls):
            log = logs / f"agent-{number}.log"
            process = start_agent(url, number, plan.node_python, plan.by_actors, log)
            fleet.nodes[url] = Node(url, process, log)
        thread.start()
        _open(fleet)
        yield fleet
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()
        for node in fleet.nodes.values():
            was_lost = node.is_lost
            node.end()
            # Agents that live go back now; this process ends when they have.
            if not was_lost:
                node.wait(fleet.restart_s(node))
            elif not node.wait(LOST_S):
                say(f"{node.name}: its agent goes on alone")
            node.leave()


def _open(fleet: AgentFleet) -> None:
    plan = fleet.plan
    numbers = {url: number for number, url in enumerate(plan.urls)}

    def begin(url: str) -> dict[str, Any]:
        address = ServerAddress(url, "--replicas")
        place = {
            "{port}": str(address.place.effective_port),
            "{host}": address.host,
            "{number}": str(numbers[url]),
        }
        restart = plan.restart
        for mark, text in place.items():
            restart = restart.replace(mark, text)
        # On its node a replica is local, whatever it is called from here.
        local = f"{address.place.scheme}://127.0.0.1:{place['{port}']}{address.base}"
        node = fleet.nodes[url]
        answer = node.ask(
            "open",
            ANSWER_S,
            url=local if plan.node_python is not None or plan.by_actors else url,
            restart=restart,
            adapter=plan.adapter,
            workload=plan.workload,
            lease_s=plan.lease_s,
            deadline_s=plan.deadline_s,
        )
        node.run, node.start_timeout_s = answer["run"], float(answer["start_timeout_s"])
        return answer

    fleet.descriptions = at_once(plan.urls, begin)
    _check_alike(fleet.descriptions, plan.changes)


def _check_alike(
    descriptions: Mapping[str, Mapping[str, Any]], changes: Mapping[str, Setting]
) -> None:
    """Refuse a replica that is unlike the first, by its name and what differs."""
    first, *others = descriptions
    expected = descriptions[first]
    for name in others:
        for part in EQUAL:
            if descriptions[name][part] != expected[part]:
                raise ReplicaRefusedError(
                    f"{name}: {part}: expected {expected[part]!r} as at {first}, got "
                    f"{descriptions[name][part]!r}",
                    "replicas of a promotion are alike; promote each kind by itself",
                )
        for knob, (wanted, stated) in mismatches(
            expected["settings"], descriptions[name]["settings"]
        ).items():
            raise ReplicaRefusedError(
                f"{name}: {knob}: expected {wanted!r} as at {first}, got {stated!r}",
                "give all replicas the same settings first",
            )
    for knob, value in changes.items():
        if knob not in expected["settings"]:
            raise ReplicaRefusedError(
                f"{first}: expected a knob {knob}, got none of that name",
                f"one of: {', '.join(sorted(expected['settings']))[:200]}",
            )
        if expected["settings"][knob] == value:
            raise ReplicaRefusedError(
                f"{knob}: expected another value than that of now, got {value!r}",
                "the replicas have it already",
            )

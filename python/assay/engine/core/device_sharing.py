"""Several engines on one device: memory quotas, shares of device time and guarantees.

Each engine is a task of the runtime's scheduler, in a partition of its own: every launch of a step
waits for a grant and is charged its measured device time. A share is a weight: it bounds a model
only while others have work. A guaranteed share is reserved instead, with a burst, so that its
steps go first while the model uses less than it; `docs/design/several-models.md` has the reasons.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, NamedTuple

from assay.engine.core.knobs import MAX_TOKEN_BUDGET
from assay.errors import InputError, OutOfMemoryError
from assay.runtime import Device
from assay.runtime.scheduling import SECOND_NS, Partition, Rate, Scheduler, Task

BURST_NS: Final = SECOND_NS // 2
"""Device time that a guaranteed model may use at once after idle time."""

GRAPHS_PER_STEP: Final = 16
"""Graphs of a step of a model beside a guaranteed one."""

GUARANTEE_WINDOW_NS: Final = SECOND_NS // 2_000
"""Work in flight beside a guaranteed model: about two of those graphs for an 8B model on an H200,
so that the device never idles between them."""

SWITCH_SECONDS: Final = 0.0005
"""How long a thread may keep Python's interpreter from the threads of engines; Python's own
default, 5 ms, is longer than a step."""

MAX_GUARANTEED: Final = 95
"""Percent that can be guaranteed: the scheduler keeps the rest, so that no task starves."""

WEIGHT_UNITS: Final = 100
"""The weight of one percent of a share; a guaranteed model's weight in what is left is 1."""

UNRESERVED_MEMORY: Final = 0.05
"""Part of the free memory that no model's quota includes, for arrays outside all of them."""

WINDOW_SECONDS: Final = 1.0
"""Time under load after which a share is measured."""

TOLERANCE: Final = 0.03
"""How far below its share a guaranteed model may be in a window before it counts as a miss."""

LINK_BYTES_PER_SECOND: Final = 1 << 40
"""Rates of the copy lanes, which are not divided: a step copies kilobytes."""


class ModelShare(NamedTuple):
    """A model's name, its share of device time under load, and whether it is guaranteed."""

    name: str
    percent: float
    guaranteed: bool = False


class ShareStatistics(NamedTuple):
    """What a model was promised and what it got."""

    share: ModelShare
    state: str
    """Of its task: pending, admitted, running, done ..."""
    device_seconds: float
    """Measured device time of all its work."""
    achieved: float | None
    """Its part of all models' device time in its last second under load; None before that."""
    quota_bytes: int
    used_bytes: int
    windows: int
    """Seconds under load that were measured."""
    misses: int
    """Those in which it got less than its guaranteed share while others got more than the rest."""


def shares_of(
    names: Sequence[str], given: Mapping[str, float], guaranteed: Collection[str]
) -> list[ModelShare]:
    """The share of each model; equal ones if none are given.

    >>> [one.percent for one in shares_of(["a", "b"], {"a": 70, "b": 30}, ["a"])]
    [70, 30]
    """
    for option, chosen in (("--share", given), ("--guarantee", guaranteed)):
        if unknown := sorted(set(chosen) - set(names)):
            raise InputError(
                f'{option}: expected one of the models {", ".join(names)}, got "{unknown[0]}"'
            )
    percents = dict(given) or dict.fromkeys(names, 100 / len(names))
    if missing := [name for name in names if name not in percents]:
        raise InputError(f'--share: expected a share of every model, got none of "{missing[0]}"')
    if any(not 0 < percent < 100 for percent in percents.values()):
        raise InputError(
            f"--share: expected percentages between 0 and 100, got {_listed(percents)}"
        )
    if abs(sum(percents.values()) - 100) > 1e-6:
        raise InputError(
            f"--share: expected shares that sum to 100, got {_listed(percents)}",
            "a share is the percentage of device time while every model has work",
        )
    total = sum(percents[name] for name in guaranteed)
    if total > MAX_GUARANTEED:
        raise InputError(
            f"--guarantee: expected at most {MAX_GUARANTEED} percent in all, got {total:g}",
            "the rest keeps the other models from starving",
        )
    return [ModelShare(name, percents[name], name in guaranteed) for name in names]


def engine_settings(share: ModelShare, shares: Sequence[ModelShare]) -> dict[str, Any]:
    """Knobs of an engine that shares its device, where the user gives none."""
    # A model with nothing queued when its step ends would lose its turn to the others, however
    # large its share is.
    # So would one whose operations are queued one by one, among those of the others.
    settings: dict[str, Any] = {"overlap": "on", "captured_prefill": MAX_TOKEN_BUDGET}
    if any(share.guaranteed for share in shares) and not share.guaranteed:
        # What runs is not interrupted: a guaranteed model waits for a part of a step, not for all.
        settings["graphs_per_step"] = GRAPHS_PER_STEP
    return settings


class DevicePlace:
    """One engine's place on a shared device; the thread that steps the engine enters it."""

    def __init__(self, sharing: DeviceSharing, share: ModelShare, task: Task) -> None:
        """Wrap a task; `DeviceSharing.admit` creates one for each model."""
        self.share: Final = share
        self.task: Final = task
        self._sharing = sharing
        self._window: tuple[float, int, int] | None = None
        """When the window under load began, and the device time of this and of all models then."""
        self.achieved: float | None = None
        self.windows = self.misses = 0

    def stepped(self, *, has_work: bool) -> None:
        """Measure the share after a step; `has_work` says whether the engine goes on."""
        if not has_work:
            self._window = None
            # A step that was launched ahead holds grants until somebody asks for its end, and the
            # other tasks wait for them.
            self.task.stream.synchronize()
            return
        now = time.perf_counter()
        if self._window is not None and now - self._window[0] < WINDOW_SECONDS:
            return
        own, total = self.device_ns(), self._sharing.device_ns()
        if self._window is not None:
            start, own_before, total_before = self._window
            self._measure(own - own_before, total - total_before, (now - start) * SECOND_NS)
        self._window = (now, own, total)

    def _measure(self, own: int, total: int, elapsed: float) -> None:
        self.windows += 1
        self.achieved = own / total if total else None
        due = (self.share.percent / 100 - TOLERANCE) * elapsed
        # A model that waits for its own host work uses less, too; then the device is idle.
        if self.share.guaranteed and own < due and total - own > elapsed - due:
            self.misses += 1

    def sleep(self) -> None:
        """Release the reserved memory and device time, for tasks that wait for them."""
        self.task.pause(keep=False)
        self._window = None

    def wake_up(self) -> None:
        """Reserve both again; raises while the memory is not free."""
        self._sharing.check_free(self.share.name)
        if self.task.state == "paused":
            self.task.resume()
        if self.task.state == "pending":
            # Admission tries again.
            self.task.wait_admitted()
        if self.task.state == "admitted":
            self.task.start()

    def device_ns(self) -> int:
        """Device time measured so far, by events around the work."""
        return int(self.task.snapshot()["lanes"]["compute"]["measured_units"])

    def __enter__(self) -> DevicePlace:
        self.task.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.task.__exit__(kind, error, trace)


class DeviceSharing:
    """The models that share a device.

    Load each engine inside `loading`, then `admit` all of them, and step each inside its place.
    """

    def __init__(self, device: Device, shares: Sequence[ModelShare]) -> None:
        """Open an account for each model, on the whole memory until all are loaded."""
        self.device: Final = device
        self.shares: Final = tuple(shares)
        any_guaranteed = any(share.guaranteed for share in shares)
        self._scheduler: Final = Scheduler(
            device,
            upload_bytes_per_second=LINK_BYTES_PER_SECOND,
            download_bytes_per_second=LINK_BYTES_PER_SECOND,
            windows={"compute": GUARANTEE_WINDOW_NS} if any_guaranteed else None,
            # A share means the same for every class.
            class_weights=(1, 1, 1),
        )
        self._capacity = device.memory_report().pool_capacity_bytes
        self._tenants = {
            share.name: device.tenant(share.name, self._capacity) for share in self.shares
        }
        self.places: dict[str, DevicePlace] = {}

    @contextmanager
    def loading(self, name: str) -> Iterator[None]:
        """Charge what is allocated inside to a model."""
        try:
            with self._tenants[name]:
                yield
        except OutOfMemoryError as error:
            raise OutOfMemoryError(
                f'model "{name}": expected to fit beside the others on {self.device}, got: '
                f"{error.message}; {self._memory_text()}",
                "serve fewer models, give --kv-tokens, or store weights in fewer bits: "
                "--knob weight_format=fp8",
            ) from None

    def admit(self) -> None:
        """Divide the memory that is left by share, and submit each model's task."""
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
        report = self.device.memory_report()
        rest = self._capacity - sum(
            max(tenant.used_bytes, tenant.reserved_bytes) for tenant in report.tenants
        )
        rest -= int(rest * UNRESERVED_MEMORY)
        for share in self.shares:
            tenant = self._tenants[share.name]
            tenant.limit = tenant.usage().used_bytes + int(rest * share.percent / 100)
            task = self._submit(share)
            if task.state == "pending":
                self._refuse(task)
            self.places[share.name] = DevicePlace(self, share, task)

    def device_ns(self) -> int:
        """Device time measured so far, of all models."""
        return sum(place.device_ns() for place in self.places.values())

    def statistics(self) -> list[ShareStatistics]:
        """What each model was promised and what it got."""
        found = []
        for place in self.places.values():
            usage = self._tenants[place.share.name].usage()
            found.append(
                ShareStatistics(
                    share=place.share,
                    state=place.task.state,
                    device_seconds=place.device_ns() / SECOND_NS,
                    achieved=place.achieved,
                    quota_bytes=usage.limit_bytes,
                    used_bytes=usage.used_bytes,
                    windows=place.windows,
                    misses=place.misses,
                )
            )
        return found

    def _submit(self, share: ModelShare) -> Task:
        reserved = int(share.percent / 100 * SECOND_NS) if share.guaranteed else 0
        quota = self._tenants[share.name].limit
        return self._scheduler.task(
            share.name,
            partition=self._partition(share, quota, reserved),
            qos="guaranteed" if share.guaranteed else "burstable",
            memory_bytes=quota,
            reserved={"compute": Rate(reserved, BURST_NS)} if reserved else None,
        )

    def _partition(self, share: ModelShare, quota: int, reserved: int) -> Partition:
        # Reserved service is not charged to the weights: beside its reservation a guaranteed model
        # gets what the others leave, and nearly nothing while they have work.
        weight = 1 if share.guaranteed else max(1, round(share.percent * WEIGHT_UNITS))
        return self._scheduler.partition(
            share.name,
            weight=weight,
            memory_bytes=quota,
            reservable={"compute": reserved, "upload": 0, "download": 0},
            tenant=self._tenants[share.name],
        )

    def check_free(self, name: str) -> None:
        """Refuse to admit a model whose memory others have taken."""
        tenant = self._tenants[name]
        try:
            tenant.reserve(tenant.limit).release()
        except OutOfMemoryError as error:
            raise OutOfMemoryError(
                f'model "{name}": expected to be admitted to {self.device}, got: {error.message}; '
                f"{self._memory_text()}"
            ) from None

    def _refuse(self, task: Task) -> None:
        """Raise why the scheduler does not admit a task; a model waits for nothing that could end."""
        decisions = self._scheduler.take_decisions().decisions
        reasons = [decision.reason for decision in decisions if decision.action == "defer"]
        for other in (*(place.task for place in self.places.values()), task):
            other.cancel()
        raise OutOfMemoryError(
            f'model "{task.name}": expected to be admitted to {self.device}, got: '
            f"{reasons[-1] if reasons else 'no reason'}; {self._memory_text()}"
        )

    def _memory_text(self) -> str:
        used = ((name, tenant.usage().used_bytes) for name, tenant in self._tenants.items())
        parts = ", ".join(f"{name} {nbytes:,}" for name, nbytes in used)
        return f"bytes in use: {parts}, of {self._capacity:,}"


def _listed(percents: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={percent:g}" for name, percent in percents.items())

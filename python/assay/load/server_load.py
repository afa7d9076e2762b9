"""`assay load`: a window of a workload on a server, or the highest load that holds an SLO."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from assay.answers import Answer, Progress, data_of, silent
from assay.errors import AssayError, CheckFailedError, NoDataError, unknown_name
from assay.keywords import takes
from assay.load import formats
from assay.load.client import ClientOptions, LoadClient
from assay.load.find import KINDS, LoadSearch, SearchOptions, check, find
from assay.load.intervals import intervals
from assay.load.metrics import limits_ms
from assay.load.workloads import spec
from assay.load.workloads.builtin import BUILT_IN
from assay.load.workloads.counting import count_of
from assay.load.workloads.measurement import Measurement
from assay.load.workloads.texts import CountTokens
from assay.load.workloads.workload import ServiceLevel, Window, Workload

INTERFACES: Final = ("auto", "completions", "chat")
DEFAULT_SECONDS: Final = 30.0
ALL_AT_ONCE: Final = 100
"""Requests of an infinite rate, where their number is not given."""
_MANY: Final = 1000
"""Different prompts prepared for a window that is limited by time."""


@dataclass(frozen=True)
class ServerLoad(Answer):
    """What a window of a workload measured on a server."""

    url: str
    workload: Workload
    window: Measurement
    burstiness: float = 1.0
    output: str | None = None
    """The file that it was written to."""

    def to_json(self) -> dict[str, Any]:
        """The workload, the load state and the figures with their intervals."""
        workload, window = self.workload, self.window
        certain = intervals(window.records, window.seconds)
        return {
            "url": self.url,
            "model": window.details["model"],
            "interface": window.details["interface"],
            "workload": workload.name,
            "description": workload.description,
            **data_of(workload, "arrival rate concurrency"),
            "slo": limits_ms(workload.slo),
            "seconds": window.seconds,
            "load_state": window.load_state,
            "queue": window.details["queue"],
            "figures": dict(window.figures),
            "intervals": {
                name: {"lo": interval.lo, "hi": interval.hi}
                for name, interval in certain.items()
                if name in window.figures
            },
            "unscored": window.details.get("unscored", {}),
            "client_cpu_share": window.client_cpu_share,
            "p99_lateness_ms": window.details.get("p99_lateness_ms"),
            "disturbances": list(window.disturbances),
            "errors": _errors(window),
            "output": self.output,
        }

    def in_format(self, name: str) -> str:
        """The result in a format of `assay.load.formats`."""
        if name == "vllm":
            return formats.to_vllm(self.window, self.workload, self.burstiness)
        return formats.FORMATS[name](self.window, self.workload)


@dataclass(frozen=True)
class HighestLoad(Answer):
    """The highest load of a server that holds an SLO."""

    url: str
    model: str
    workload: Workload
    kind: str
    least_share: float
    """The share of requests that must keep the SLO."""
    search: LoadSearch

    def to_json(self) -> dict[str, Any]:
        """The highest load that holds, the lowest that does not, and every one that was measured."""
        search = self.search
        return {
            "url": self.url,
            "model": self.model,
            "workload": self.workload.name,
            "find": self.kind,
            "slo": limits_ms(self.workload.slo),
            "least_share": self.least_share,
            **data_of(search, "best above nearest points"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """What is sent and how, whatever the load; texts are those of the command's options."""

    workload: str = "chat"
    """A name, or a file of recorded requests."""
    slo: str | None = None
    burstiness: float = 1.0
    """1 is a Poisson process, less is burstier."""
    bursts: str | None = None
    """Send for so long and rest for so long: 2s/8s."""
    time_scale: float | None = None
    """Multiplies the times of a recording."""
    input_tokens: str | None = None
    output_tokens: str | None = None
    seed: int = 0
    interface: str = "auto"
    model: str | None = None
    timeout: str | float = "10m"

    def client(self, url: str) -> LoadClient:
        """A client of the server; it is opened by `with`."""
        if self.interface not in INTERFACES:
            raise unknown_name("interface", self.interface, INTERFACES)
        seconds = spec.parse_duration("--timeout", self.timeout)
        return LoadClient(url, ClientOptions(self.interface, self.model, seconds))  # type: ignore[arg-type]

    def limits(self) -> ServiceLevel | None:
        """The SLO."""
        return None if self.slo is None else spec.parse_slo("--slo", self.slo)

    def count_by(self, client: LoadClient) -> CountTokens | None:
        """How the server counts the tokens of generated texts."""
        if self.workload not in BUILT_IN:
            return None
        # Whatever is wrong with the options is said before the server is asked.
        self.planned(1)
        return count_of(client.run_window)

    def planned(
        self,
        requests: int | None,
        rate: float | None = None,
        concurrency: int | None = None,
        count: CountTokens | None = None,
    ) -> Workload:
        """The workload at a load."""
        return spec.parse_workload(
            self.workload,
            requests=requests,
            rate=rate,
            concurrency=concurrency,
            slo=self.limits(),
            burstiness=self.burstiness,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            seed=self.seed,
            time_scale=self.time_scale,
            count=count,
            bursts=None if self.bursts is None else spec.parse_bursts("--bursts", self.bursts),
        )


_OPTIONS: Final = tuple(field.name for field in fields(LoadOptions))


@takes(_OPTIONS)
def load_server(
    url: str,
    *,
    rate: str | float | None = None,
    concurrency: int | None = None,
    seconds: str | float | None = None,
    requests: int | None = None,
    warmup: int = 1,
    progress: Progress = silent,
    **options: Any,
) -> ServerLoad:
    """Send a window of a workload to an OpenAI-compatible server, and measure it.

    The other options are the fields of `LoadOptions`.

        load_server("http://localhost:8000", workload="chat", rate=4).to_json()["figures"]
    """
    chosen = LoadOptions(**options)
    a_second = None if rate is None else spec.parse_rate("--rate", rate)
    length_s = None if seconds is None else spec.parse_duration("--seconds", seconds)
    with chosen.client(url) as client:
        prepared = requests
        if requests is None:
            prepared = _prepared(chosen.workload, a_second, length_s)
        if rate is not None and a_second is None:
            # All at once is a closed loop without an end to its width.
            prepared = requests or ALL_AT_ONCE
            concurrency = concurrency or prepared
        count = chosen.count_by(client)
        planned = chosen.planned(prepared, a_second, concurrency, count)
        measured = client.run_window(
            planned,
            _window(planned, length_s, requests, warmup),
            progress=lambda now: progress(
                f"{now.seconds:.0f} s: {now.sent} sent, {now.done} ended, {now.failed} failed"
            ),
        )
        server = client.address.url
    return ServerLoad(
        server,
        planned,
        measured,
        chosen.burstiness,
        problem=_problem(server, measured),
        notes=(*measured.details["notes"], *measured.disturbances),
    )


@takes(_OPTIONS)
def find_load(
    url: str,
    kind: str,
    *,
    rate: str | float | None = None,
    concurrency: int | None = None,
    requests: int | None = None,
    attainment: str | float = "90%",
    progress: Progress = silent,
    **options: Any,
) -> HighestLoad:
    """Search for the highest load of a server that holds an SLO: max-rate or max-concurrency.

    `rate` or `concurrency` is the highest to try. The other options are the fields of `LoadOptions`.
    """
    if kind not in KINDS:
        raise unknown_name("search of --find", kind, KINDS)
    chosen = LoadOptions(**options)
    slo = chosen.limits() or ServiceLevel()
    highest: float | None = concurrency
    if kind == "max-rate":
        highest = None if rate is None else spec.parse_rate("--rate", rate)
    wanted = SearchOptions(
        spec.parse_share("--attainment", attainment),
        requests=requests,
        most=None if highest is None else float(highest),
    )
    check(slo, wanted)
    with chosen.client(url) as client:
        planned = replace(chosen.planned(_MANY, count=chosen.count_by(client)), slo=slo)
        search = find(kind, planned, slo, client.run_window, wanted, progress)
        notes = (*client.notes, *search.notes)
        server, model = client.address.url, client.model().name
    return HighestLoad(
        server, model, planned, kind, wanted.least_share, search,
        problem=_not_held(kind, search), notes=notes,
    )  # fmt: skip


def _prepared(workload: str, rate: float | None, seconds: float | None) -> int | None:
    """How many different requests a window of seconds may need; None is the workload's own number."""
    if workload not in BUILT_IN or BUILT_IN[workload].concurrency is None:
        return None
    if rate is None:
        return _MANY
    return max(10, int(1.2 * rate * (seconds or DEFAULT_SECONDS)) + 1)


def _window(planned: Workload, seconds: float | None, requests: int | None, warmup: int) -> Window:
    if seconds is None and requests is None:
        is_whole = planned.arrival == "replay" or planned.concurrency == len(planned.requests)
        if is_whole:
            requests = len(planned.requests)
        else:
            seconds = DEFAULT_SECONDS
    return Window(seconds, requests, warmup)


def _errors(window: Measurement) -> dict[str, int]:
    errors = Counter(record.error for record in window.records if record.error is not None)
    return dict(errors.most_common())


def _problem(url: str, window: Measurement) -> AssayError | None:
    if window.figures["completed"]:
        return None
    worst = next(iter(_errors(window)), "nothing was sent")
    return NoDataError(f"{url}: expected answers, got none: {worst}")


def _not_held(kind: str, search: LoadSearch) -> AssayError | None:
    if search.best is not None:
        return None
    nearest = search.nearest
    assert nearest is not None
    return CheckFailedError(
        f"no {kind.removeprefix('max-')} holds the SLO: {nearest.attainment.binds} binds, "
        f"{nearest.attainment.share.value:.1%} of requests keep it at the nearest point, "
        f"{nearest.load:.4g} {nearest.unit}"
    )

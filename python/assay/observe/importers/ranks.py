"""Traces of several ranks as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from assay.lazy_import import pl
from assay.observe.header import TraceHeader
from assay.observe.trace import Trace


def merge(traces: Sequence[Trace], names: Sequence[str]) -> Trace:
    """The events of all traces, each with its rank; a trace that states none gets a free one."""
    header = _merged_header([trace.header for trace in traces], names)
    taken: set[int] = set()
    frames = []
    for trace, name in zip(traces, names, strict=True):
        stated = set(trace.events["rank"].drop_nulls().unique().to_list())
        free = next(rank for rank in range(len(traces) + len(taken)) if rank not in taken)
        if repeated := sorted(stated & taken):
            header.degradations.append(f"{name}: its rank {repeated[0]} is another file's, too")
        if trace.events["rank"].null_count():
            header.degradations.append(f"{name}: states no rank; taken as {free}")
        taken |= stated or {free}
        frames.append(trace.events.with_columns(pl.col("rank").fill_null(free)))
    steps = pl.concat([trace.steps for trace in traces])
    return Trace(header, pl.concat(frames), steps)


def _merged_header(headers: Sequence[TraceHeader], names: Sequence[str]) -> TraceHeader:
    """What all say alike, the sum of what is counted, and each file's own metadata."""

    def agreed(field: str) -> str | None:
        values = {getattr(header, field) for header in headers}
        return values.pop() if len(values) == 1 else None

    repairs: Counter[str] = Counter()
    for header in headers:
        repairs.update(header.repairs)
    merged = TraceHeader(
        run=agreed("run"),
        source=agreed("source") or "+".join(sorted({header.source for header in headers})),
        engine=agreed("engine"),
        model=agreed("model"),
        versions=dict(headers[0].versions),
        hardware=dict(headers[0].hardware),
        clock=agreed("clock") or "unknown",
        dropped=sum(header.dropped for header in headers),
        repairs=dict(repairs),
        metadata={
            "files": {name: header.metadata for name, header in zip(names, headers, strict=True)}
        },
    )
    for name, header in zip(names, headers, strict=True):
        merged.processes |= {key: merged.processes.get(key, value)
                             for key, value in header.processes.items()}  # fmt: skip
        merged.degradations += [f"{name}: {degradation}" for degradation in header.degradations]
    if merged.clock != "realtime":
        merged.degradations.append("the clocks of the files are not known to agree")
    else:
        merged.degradations.append(
            "the files are on the clocks of their hosts, which agree as far as those are set alike"
        )
    return merged

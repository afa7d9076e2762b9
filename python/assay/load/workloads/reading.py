"""Recorded requests of any known format as a workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.load.workloads import archive
from assay.load.workloads.arrivals import replayed
from assay.load.workloads.counting import how_counted
from assay.load.workloads.readers.detect import format_of
from assay.load.workloads.readers.recorded import Format, LeftOut, Recorded
from assay.load.workloads.texts import CountTokens, Writer, approximate_tokens, cut
from assay.load.workloads.workload import PlannedRequest, Workload

_KEPT_BLOCKS: Final = 1 << 16
"""Blocks whose text is kept: most are seen once or again soon."""


class BlockTexts:
    """Writes the prompt of a recorded request."""

    def __init__(self, block_tokens: int, seed: int, count: CountTokens | None) -> None:
        """Texts of blocks that have `block_tokens` tokens each."""
        self._block_tokens = block_tokens
        self._seed = seed
        self._count = count
        self._texts: dict[int, str] = {}

    def prompt(self, number: int, recorded: Recorded) -> str:
        """The text of a request: its blocks, then text of its own up to its length."""
        assert recorded.input_tokens is not None
        left = recorded.input_tokens
        parts = []
        for block in recorded.blocks:
            if left <= 0:
                break
            text = self._block(block)
            if left < self._block_tokens:
                text = cut(text, left, Writer("", self._count).count)
            parts.append(text)
            left -= self._block_tokens
        if left > 0:
            parts.append(Writer(f"request {self._seed} {number}", self._count).text(left))
        return " ".join(parts)

    def _block(self, block: int) -> str:
        if block not in self._texts:
            if len(self._texts) >= _KEPT_BLOCKS:
                self._texts.clear()
            writer = Writer(f"block {self._seed} {block}", self._count)
            self._texts[block] = writer.text(self._block_tokens)
        return self._texts[block]


def shared_tokens(requests: Sequence[Recorded], block_tokens: int) -> list[int]:
    """How many tokens at its beginning each request has in common with another one.

    >>> shared_tokens([Recorded(1, 0.0, 40, blocks=(1, 2)), Recorded(1, 0.0, 30, blocks=(1, 3))], 16)
    [16, 16]
    """
    chains: Counter[int] = Counter()
    names: dict[tuple[int, int], int] = {}
    paths = []
    for request in requests:
        parent, path = 0, []
        for block in request.blocks:
            # A beginning is named by the beginning before it and its last block.
            parent = names.setdefault((parent, block), len(names) + 1)
            path.append(parent)
        chains.update(path)
        paths.append(path)
    shared = []
    for request, path in zip(requests, paths, strict=True):
        blocks = sum(chains[beginning] > 1 for beginning in path)
        shared.append(min(blocks * block_tokens, request.input_tokens or 0))
    return shared


MAX_REQUESTS: Final = 1_000_000
MAX_PROMPT_TOKENS: Final = 1 << 25
"""Most tokens of all prompts together, which are kept in memory: about 170 MB of text."""
CONCURRENCY: Final = 4
"""Requests under way at once where a recording has no times."""


def read_requests(
    path: str | Path,
    format: str | None = None,
    limit: int | None = None,
    time_scale: float = 1.0,
    seed: int = 0,
    *,
    count: CountTokens | None = None,
) -> Workload:
    """The requests of a file: at most `limit`, with recorded times multiplied by `time_scale`.

    The format is told from the content where it is not named. A recording with times becomes a
    replay; one without is a closed loop. A file that `archive.save` wrote comes back as it was.
    """
    path = Path(path)
    if limit is not None and not 1 <= limit <= MAX_REQUESTS:
        raise InputError(f"limit: expected from 1 to {MAX_REQUESTS:,} requests, got {limit:,}")
    if not 0 < time_scale < float("inf"):
        raise InputError(f"time_scale: expected above 0, got {time_scale:g}")
    layout = format_of(path, format)
    if layout.name == "jsonl" and (header := archive.read_header(path)) is not None:
        return _as_saved(path, layout, header, limit, time_scale)
    requests, notes = _recorded(path, layout, limit)
    workload = Workload(
        path.stem[:80],
        f"{len(requests):,} requests of {path.name} ({layout.name})",
        _planned(requests, layout.block_tokens(path), seed, count),
        concurrency=min(CONCURRENCY, len(requests)),
        source=str(path),
        notes=(*notes, *_text_notes(requests, layout, count)),
    )
    if requests[0].arrival_s is None:
        return workload
    return replayed(workload, [request.arrival_s or 0.0 for request in requests], time_scale)


def _recorded(
    path: Path, layout: Format, limit: int | None
) -> tuple[list[Recorded], tuple[str, ...]]:
    """The requests in the order of their times, and what was left out."""
    requests: list[Recorded] = []
    left_out: Counter[str] = Counter()
    assumed: Counter[str] = Counter()
    total = 0
    for row in layout.read(path):
        if isinstance(row, LeftOut):
            left_out[row.reason] += 1
            continue
        assumed.update(row.assumed)
        requests.append(row)
        if row.input_tokens is None:
            total += approximate_tokens(row.prompt or "")
        else:
            total += row.input_tokens
        if total > MAX_PROMPT_TOKENS:
            raise InputError(
                f"{path}: expected at most {MAX_PROMPT_TOKENS:,} prompt tokens in all, got more in "
                f"{len(requests):,} requests",
                f"take fewer requests: at most {len(requests) - 1:,}",
            )
        if len(requests) == (limit or MAX_REQUESTS):
            if limit is None:
                assumed["rows after so many requests were not read"] = MAX_REQUESTS
            break
    requests = _of_one_kind(requests, left_out)
    notes = (
        *(f"{what}: {number:,} left out" for what, number in sorted(left_out.items())),
        *(f"{what}: {number:,}" for what, number in sorted(assumed.items())),
    )
    if not requests:
        raise InputError(
            f"{path}: expected requests ({layout.name}: {layout.meaning}), got none",
            "; ".join(notes) or None,
        )
    return requests, notes


def _of_one_kind(requests: list[Recorded], left_out: Counter[str]) -> list[Recorded]:
    """Requests with times in their order, or, where none has a time, as they stand."""
    timed = [request for request in requests if request.arrival_s is not None]
    if not timed:
        return requests
    if len(timed) < len(requests):
        left_out["requests without a time among others with one"] = len(requests) - len(timed)
    return sorted(timed, key=lambda request: request.arrival_s or 0.0)


def _planned(
    requests: Sequence[Recorded], block_tokens: int, seed: int, count: CountTokens | None
) -> tuple[PlannedRequest, ...]:
    texts = BlockTexts(block_tokens, seed, count)
    shared = shared_tokens(requests, block_tokens)
    return tuple(
        PlannedRequest(
            number,
            texts.prompt(number, request) if request.prompt is None else request.prompt,
            request.output_tokens,
            prefix_tokens=request.prefix_tokens or shared[number],
            sampling=dict(request.sampling),
            fields=dict(request.fields),
            messages=request.messages,
        )
        for number, request in enumerate(requests)
    )


def _text_notes(
    requests: Sequence[Recorded], layout: Format, count: CountTokens | None
) -> tuple[str, ...]:
    if requests[0].prompt is not None:
        return ()
    how = how_counted(count)
    note = f"the recording has lengths, not texts: prompts are generated English, {how}"
    if any(request.blocks for request in requests):
        note += "; equal hash_ids are equal texts"
    return (note,)


def _as_saved(
    path: Path, layout: Format, header: Workload, limit: int | None, time_scale: float
) -> Workload:
    rows = [row for row in layout.read(path) if isinstance(row, Recorded)]
    requests = tuple(
        PlannedRequest(
            number,
            row.prompt or "",
            row.output_tokens,
            (row.arrival_s or 0.0) * time_scale,
            row.prefix_tokens,
            dict(row.sampling),
            dict(row.fields),
            prompt_tokens=row.input_tokens or 0,
            messages=row.messages,
        )
        for number, row in enumerate(rows[:limit])
    )
    rate = None if header.rate is None else header.rate / time_scale
    return replace(header, requests=requests, rate=rate)

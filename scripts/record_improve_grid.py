"""Record how fast the engine runs at every point of a grid of knobs, three times over.

    python scripts/record_improve_grid.py --model smollm2 --out bench/results/improve-grid-cpu.json

`assay bench improve` replays searches over the recording, so that every search sees the same
machine and the same noise. Each visit of a configuration is cut into blocks, in an order that is
drawn anew for each repetition. On a machine that others use, `--clock cpu` counts the CPU seconds of
the process, which they hardly change; threads that wait cost as much as threads that work then.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from assay import json_records
from assay.engine import Engine, SamplingParams

GRID: Final[Mapping[str, tuple[int, ...]]] = {
    "threads": (1, 2),
    "max_batch": (1, 2, 4, 8),
    "speculation_depth": (0, 4, 8),
    "graph_buckets": (0, 4),
    "token_budget": (16, 64, 512),
}
CLIENTS: Final = 8
"""Requests under way at once: a closed loop."""
SENTENCE: Final = (
    "The {color} gate number {number} of the harbor opens at {hour} and closes when the last boat "
    "has left. "
)


CLOCKS: Final[Mapping[str, Callable[[], float]]] = {
    "wall": time.perf_counter,
    "cpu": time.process_time,
}


def configurations(grid: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, int]]:
    """Every point of the grid."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def axis(text: str) -> tuple[str, tuple[int, ...]]:
    """A knob and its values, as in max_batch=1,2,4."""
    name, _, values = text.partition("=")
    return name, tuple(map(int, values.split(",")))


def prompt(number: int, sentences: int) -> str:
    """A text that repeats itself, as the input of an edit does: the model goes on with it."""
    color = ("red", "green", "blue", "white", "black")[number % 5]
    sentence = SENTENCE.format(color=color, number=number, hour=1 + number % 12)
    return sentences * sentence


class ClosedLoop:
    """Waves of requests: all clients send at once, and a block ends with its last answer.

    Every block is the same work. Blocks of equal time would begin and end at any place of a wave,
    and differ by a third for that alone.
    """

    def __init__(
        self, engine: Engine, output_tokens: int, sentences: int, clock: Callable[[], float]
    ) -> None:
        """Start with no request."""
        self._engine, self._sentences, self._clock = engine, sentences, clock
        self._params = SamplingParams(max_tokens=output_tokens, temperature=0.0, ignore_eos=True)

    def block(self, waves: int = 1) -> tuple[int, float]:
        """Output tokens and seconds of a block of so many waves."""
        begun, tokens, sent, under_way = self._clock(), 0, 0, 0
        while sent < waves * CLIENTS or under_way:
            while under_way < CLIENTS and sent < waves * CLIENTS:
                sent += 1
                self._engine.add_request(prompt(sent, self._sentences), self._params)
                under_way += 1
            for output in self._engine.step():
                tokens += sum(1 for chunk in output.chunks if chunk.token_id is not None)
                under_way -= output.finished
        return tokens, self._clock() - begun


def main() -> None:
    """Record the grid, or blocks of one configuration."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="number of the first repetition")
    parser.add_argument("--blocks", type=int, default=3, help="blocks of a visit")
    parser.add_argument("--waves", type=int, default=1, help="requests of each client in a block")
    parser.add_argument("--output-tokens", type=int, default=24)
    parser.add_argument("--sentences", type=int, default=3, help="of a prompt")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--axis", type=axis, action="append", help="NAME=V,V in place of the grid")
    parser.add_argument("--noise", type=int, default=0, help="record this many blocks of defaults")
    options = parser.parse_args()
    from assay.runtime.fingerprint import machine
    from assay.runtime.hardware import device as device_named

    grid = dict(options.axis) if options.axis else GRID
    visits: list[dict[str, Any]] = []
    with Engine.load(options.model, options.device, kv_tokens=4096, prefix_caching=False) as engine:
        clock = CLOCKS[options.clock]
        loop = ClosedLoop(engine, options.output_tokens, options.sentences, clock)
        begun = time.time()
        if options.noise:
            loop.block(4)
            blocks = [loop.block(options.waves) for _ in range(options.noise)]
            visits.append({"settings": {}, "repetition": 0, "start_s": 0.0, "blocks": blocks})
        points = [] if options.noise else list(configurations(grid))
        for repetition in range(options.first, options.first + options.repetitions):
            random.Random(repetition).shuffle(points)
            for place, settings in enumerate(points):
                engine.configure(settings)
                loop.block()
                visit = {"settings": settings, "repetition": repetition}
                visit["start_s"] = round(time.time() - begun, 3)
                visit["blocks"] = [loop.block(options.waves) for _ in range(options.blocks)]
                visits.append(visit)
                print(repetition, place, settings, _rate(visit), flush=True)
        data = {
            "format": 1,
            "machine": machine(device_named(options.device)).to_data(),
            "model": engine.files.name,
            "device": options.device,
            "clients": CLIENTS,
            "output_tokens": options.output_tokens,
            "defaults": engine.settings.as_dict() if options.noise else None,
            "grid": {name: list(values) for name, values in grid.items()},
            "sentences": options.sentences,
            "blocks": f"output tokens and {'CPU seconds' if options.clock == 'cpu' else 'seconds'}",
            "visits": visits,
        }
    options.out.write_text(json_records.dumps(data, 2) + "\n", encoding="utf-8")


def _rate(visit: Mapping[str, Any]) -> str:
    tokens = sum(count for count, _ in visit["blocks"])
    return f"{tokens / sum(seconds for _, seconds in visit['blocks']):.1f} tokens/s"


if __name__ == "__main__":
    main()

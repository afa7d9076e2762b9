"""A long run of `assay serve` at 80 % of its load: aborts, adapters that come and go, sleep and wake-up.

    python tests/attacks/serving_soak.py smollm2 --seconds 1800

The server is deterministic: every answer must be the one of a quiet run. Exit code 0: no request was lost, none has
another answer, memory is flat, and the server is idle afterward and ends with 0.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from assay.bench.serving.adapters import write_adapters

USERS = 8
LOAD = 0.8
"""Share of the rate that so many users get in a closed loop."""
ABORTED = 0.1
"""Share of requests whose client leaves after the first tokens."""
PROBE_SECONDS = 5.0
ADAPTER_SECONDS = 4.0
SLEEP_SECONDS = 15.0
"""Time between two loads of an adapter, and between two sleeps."""
RETRY_SECONDS = 0.1
TIMEOUT_SECONDS = 600.0
"""Long, since a machine that others use is slow: only a request that is never answered is lost."""
GROWTH = 0.03
"""Of memory, from the second quarter of the run to the last, that is not a leak: the first one fills caches. A short
run has not filled them yet."""


@dataclass(frozen=True)
class Case:
    """A request whose answer does not depend on what else runs."""

    prompt: str
    tokens: int
    seed: int | None
    """None is greedy."""
    adapter: str | None = None

    def body(self, model: str) -> dict[str, Any]:
        """The request."""
        body: dict[str, Any] = {
            "model": self.adapter or model,
            "prompt": self.prompt,
            "max_tokens": self.tokens,
            "temperature": 0.0 if self.seed is None else 0.8,
            "ignore_eos": True,
            "stream": True,
        }
        return body if self.seed is None else body | {"seed": self.seed}


@dataclass
class Report:
    """What was done, and what went wrong."""

    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    rate: float = 0.0
    memory: list[tuple[float, int]] = field(default_factory=list)
    """Bytes of all processes of the server, by time."""

    def growth(self) -> float | None:
        """Relative growth of memory from the second quarter to the last one; None for a short run."""
        if len(self.memory) < 16:
            return None
        quarter = len(self.memory) // 4
        first = statistics.median(size for _, size in self.memory[quarter : 2 * quarter])
        last = statistics.median(size for _, size in self.memory[-quarter:])
        return last / first - 1.0

    def verdict(self, most_growth: float = GROWTH) -> dict[str, Any]:
        """The report as JSON."""
        growth = self.growth()
        failures = list(self.wrong)
        if growth is not None and growth > most_growth:
            failures.append(f"memory grew by {growth:.1%}")
        return {
            "requests_per_s": round(self.rate, 2),
            **dict(sorted(self.done.items())),
            "memory_mib": [
                round(size / 2**20, 1) for _, size in self.memory[:: max(len(self.memory) // 8, 1)]
            ],
            "growth": None if growth is None else round(growth, 4),
            "wrong": failures[:20],
        }


class Soak:
    """Clients of one server."""

    def __init__(self, url: str, model: str, seconds: float, seed: int) -> None:
        self._http = httpx.AsyncClient(
            base_url=url,
            timeout=TIMEOUT_SECONDS,
            trust_env=False,
            # Kept connections may be closed by the server while a request is sent: that loses none of its own.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
        )
        self._model = model
        self._seconds = seconds
        self._random = random.Random(seed)
        self._expected: dict[Case, str] = {}
        self._cases = [
            Case(f"Number {number}: the ferry left the harbor", 8 + 7 * (number % 5), seed)
            for number in range(12)
            for seed in (None, number)
        ]
        self._is_resting = False
        self.report = Report()

    async def run(self, pids: Sequence[int], adapters: Sequence[str]) -> Report:
        """A quiet run for the answers, a closed loop for the rate, then the load."""
        async with self._http:
            for name in adapters:
                await self._administer("/v1/load_lora_adapter", lora_name=name, lora_path=name)
            adapted = [
                Case(case.prompt, case.tokens, case.seed, name)
                for name in adapters
                for case in self._cases[:4]
            ]
            for case in (*self._cases, *adapted):
                self._expected[case] = (await self._ask(case))[0]
            for name in adapters:
                await self._administer("/v1/unload_lora_adapter", lora_name=name)
            # What the first sleep and the first full batch allocate stays allocated.
            await self._administer("/sleep")
            await self._administer("/wake_up")
            self.report.rate = LOAD * await self._saturated_rate()
            until = time.monotonic() + self._seconds
            measuring = asyncio.create_task(self._measure(pids))
            await asyncio.gather(
                self._arrive(until),
                self._change_adapters(until, adapters, adapted),
                self._rest(until),
            )
            measuring.cancel()
            await self._check_idle()
        return self.report

    async def _ask(self, case: Case, *, leaves: bool = False) -> tuple[str, bool]:
        """The text of the answer and whether all of it was read; a server that rests is asked again."""
        while True:
            async with self._http.stream(
                "POST", "/v1/completions", json=case.body(self._model)
            ) as answer:
                if answer.status_code == 503:
                    self.report.done["asked again"] += 1
                elif answer.status_code != 200:
                    await answer.aread()
                    raise AssertionError(f"{answer.status_code}: {answer.text[:200]}")
                else:
                    return await self._read(answer, leaves=leaves)
            await asyncio.sleep(RETRY_SECONDS)

    async def _read(self, answer: httpx.Response, *, leaves: bool) -> tuple[str, bool]:
        text, reason = "", None
        async for line in answer.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            event = json.loads(line.removeprefix("data: "))
            if "error" in event:
                raise AssertionError(event["error"]["message"])
            [choice] = event["choices"]
            text += choice["text"]
            reason = choice["finish_reason"] or reason
            if leaves:
                return text, False
        assert reason == "length", f"an answer ended with {reason}"
        return text, True

    async def _request(self, case: Case) -> None:
        """One client: its answer must be that of the quiet run."""
        leaves = self._random.random() < ABORTED
        try:
            text, is_whole = await asyncio.wait_for(self._ask(case, leaves=leaves), TIMEOUT_SECONDS)
        except (AssertionError, httpx.HTTPError, TimeoutError) as error:
            self.report.wrong.append(f"lost: {type(error).__name__}: {error}")
            return
        self.report.done["answered" if is_whole else "aborted"] += 1
        expected = self._expected[case]
        if text != expected if is_whole else not expected.startswith(text):
            self.report.wrong.append(f"{case} answered {text!r} instead of {expected!r}")

    async def _saturated_rate(self) -> float:
        until, count = time.monotonic() + PROBE_SECONDS, 0

        async def user() -> None:
            nonlocal count
            while time.monotonic() < until:
                await self._ask(self._random.choice(self._cases))
                count += 1

        began = time.monotonic()
        await asyncio.gather(*(user() for _ in range(USERS)))
        return count / (time.monotonic() - began)

    async def _arrive(self, until: float) -> None:
        """A Poisson process; all of its requests are waited for."""
        due = time.monotonic()
        async with asyncio.TaskGroup() as group:
            while due < until:
                await asyncio.sleep(max(due - time.monotonic(), 0.0))
                group.create_task(self._request(self._random.choice(self._cases)))
                self.report.done["sent"] += 1
                due += self._random.expovariate(self.report.rate)

    async def _change_adapters(
        self, until: float, adapters: Sequence[str], cases: Sequence[Case]
    ) -> None:
        """Load an adapter beside the load, ask it, and unload it."""
        while time.monotonic() < until and adapters:
            name = self._random.choice(adapters)
            await self._administer("/v1/load_lora_adapter", lora_name=name, lora_path=name)
            own = [case for case in cases if case.adapter == name]
            await asyncio.gather(*(self._request(case) for case in own))
            self.report.done["sent"] += len(own)
            await self._administer("/v1/unload_lora_adapter", lora_name=name)
            self.report.done["adapter loads"] += 1
            await asyncio.sleep(ADAPTER_SECONDS)

    async def _rest(self, until: float) -> None:
        """Put the model to sleep while requests keep coming, and wake it up."""
        await asyncio.sleep(min(SLEEP_SECONDS, self._seconds / 3))
        while time.monotonic() < until:
            self._is_resting = True
            await self._administer("/sleep")
            self.report.done["sleeps"] += 1
            await asyncio.sleep(RETRY_SECONDS)
            await self._administer("/wake_up")
            self._is_resting = False
            await asyncio.sleep(SLEEP_SECONDS)

    async def _administer(self, path: str, **body: str) -> None:
        """Ask for a change until it is made: one that requests forbid now is made later."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            answer = await self._http.post(path, json=body or None)
            if answer.status_code == 200:
                return
            may_wait = answer.status_code in (409, 429, 503) and time.monotonic() < deadline
            if not may_wait:
                self.report.wrong.append(f"{path}: {answer.status_code}: {answer.text[:200]}")
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def _measure(self, pids: Sequence[int]) -> None:
        while True:
            # A model that sleeps has no KV cache.
            if not self._is_resting:
                self.report.memory.append((time.monotonic(), sum(map(_resident_bytes, pids))))
            await asyncio.sleep(max(self._seconds / 400, 0.25))

    async def _check_idle(self) -> None:
        await self._administer("/reset_prefix_cache")
        text = (await self._http.get("/metrics")).text
        for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
            [line] = [line for line in text.splitlines() if line.startswith(f"vllm:{name}{{")]
            if float(line.rpartition(" ")[2]):
                self.report.wrong.append(f"not idle afterward: {line}")


def _resident_bytes(pid: int) -> int:
    """Memory of a process that it shares with no other."""
    fields = dict(
        line.split(":", 1)
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    )
    return 1024 * sum(int(fields[name].split()[0]) for name in ("Private_Clean", "Private_Dirty"))


@contextlib.contextmanager
def served(model: str, folder: Path, options: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """The server's address and its processes; its end must be that of a drain."""
    words = ["serve", model, "--port", "0", "--json", "--no-access-log", "--enable-sleep-mode"]
    # A cache of fixed size: one that grows on demand would look like a leak.
    words += ["--knob", "deterministic=true", "--kv-tokens", "4096", "--lora-folder", str(folder)]
    words += options
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "}\n")
        url = json.loads("".join(lines) + "}")["url"]
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        yield url, [process.pid, *map(int, children.split())]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, f"the server ended with {process.returncode}"
    finally:
        process.kill()
        process.communicate()


def soak(model: str, seconds: float, options: Sequence[str] = (), seed: int = 0) -> Report:
    """Run the whole of it against a server of its own."""
    with tempfile.TemporaryDirectory() as folder:
        adapters = list(write_adapters(Path(folder) / "adapters", model))[:2]
        with served(model, Path(folder) / "adapters", options) as (url, pids):
            name = json.loads(httpx.get(f"{url}/v1/models", trust_env=False).text)["data"][0]["id"]
            return asyncio.run(Soak(url, name, seconds, seed).run(pids, adapters))


def main() -> int:
    """Parse the command line, soak, print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="what assay serve takes, such as smollm2")
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.epilog = "What follows -- are options of assay serve."
    own = sys.argv[1:]
    cut = own.index("--") if "--" in own else len(own)
    given = parser.parse_args(own[:cut])
    verdict = soak(given.model, given.seconds, own[cut + 1 :], given.seed).verdict()
    sys.stdout.write(json.dumps(verdict, indent=1) + "\n")
    return 1 if verdict["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())

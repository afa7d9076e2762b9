"""A long run of `assay serve` at 80 % of its load: aborts, adapters that come and go, sleep and wake-up.

    python tests/attacks/serving_soak.py smollm2 --seconds 1800 -- --device cpu
    python tests/attacks/serving_soak.py llama-3-8b-shape --seconds 480 --users 64 -- --device cuda:0

The server is deterministic: every answer must be the one of a quiet run. Exit code 0: no request was lost, none has
another answer, memory is flat (of its processes, and of the GPU where it computes there), and the server is idle
afterward and ends with 0. The last line is the verdict. The client needs a share of the machine, too: the server
closes a connection whose request takes more than 30 s to arrive.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from assay.bench.serving.adapters import write_adapters

USERS = 8
KV_TOKENS_PER_USER = 512
LOAD = 0.8
"""Share of the rate that so many users get in a closed loop."""
UNDER_WAY_PER_USER = 4
"""Requests under way at once, at most. On a machine that others use the rate of the start is too much later: then
arrivals wait instead of piling up to thousands, which starve their own client beyond the server's 30 s."""
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
    device_memory: list[tuple[float, int]] = field(default_factory=list)
    """Bytes in use on the GPU, by time."""
    lost: int = 0
    """Requests without an answer."""
    different: int = 0
    """Answers that are not those of the quiet run."""

    def verdict(self, most_growth: float = GROWTH) -> dict[str, Any]:
        """The report as JSON."""
        failures = list(self.wrong)
        grown = {"memory": growth(self.memory), "device memory": growth(self.device_memory)}
        failures += [
            f"{name} grew by {share:.1%}"
            for name, share in grown.items()
            if share is not None and share > most_growth
        ]
        return {
            "requests_per_s": round(self.rate, 2),
            **dict(sorted(self.done.items())),
            "lost": self.lost,
            "different": self.different,
            "memory_mib": _shown(self.memory),
            "device_memory_mib": _shown(self.device_memory),
            "growth": _rounded(grown["memory"]),
            "device_growth": _rounded(grown["device memory"]),
            "mib_per_hour": _rounded(slope_mib_per_hour(self.memory)),
            "wrong": failures[:20],
        }


def growth(memory: Sequence[tuple[float, int]]) -> float | None:
    """Relative growth from the second quarter of the run to the last one; None for a short run."""
    if len(memory) < 16:
        return None
    quarter = len(memory) // 4
    first = statistics.median(size for _, size in memory[quarter : 2 * quarter])
    last = statistics.median(size for _, size in memory[-quarter:])
    return last / first - 1.0


def slope_mib_per_hour(memory: Sequence[tuple[float, int]]) -> float | None:
    """Least squares behind the first quarter; None for a short run."""
    settled = memory[len(memory) // 4 :]
    if len(settled) < 12:
        return None
    fit = statistics.linear_regression(*zip(*settled, strict=True))
    return fit.slope * 3600 / 2**20


def verdict_line(verdict: Mapping[str, Any], seconds: float) -> str:
    """What the run showed, in one line."""
    outcome = "FAILED" if verdict["wrong"] else "passed"
    counts = [
        f"{verdict.get('sent', 0):,} requests sent in {seconds:,.0f} s",
        f"{verdict['lost']} lost",
        f"{verdict['different']} with other tokens than the quiet run",
        *(
            f"{verdict.get(name, 0):,} {name}"
            for name in ("aborted", "held back", "adapter loads", "sleeps")
        ),
    ]
    if verdict["growth"] is not None:
        counts.append(
            f"memory {verdict['growth']:+.1%} ({verdict['mib_per_hour']:+,.1f} MiB an hour)"
        )
    if verdict["device_growth"] is not None:
        counts.append(f"device memory {verdict['device_growth']:+.1%}")
    return f"soak {outcome}: {', '.join(counts)}"


def _shown(memory: Sequence[tuple[float, int]]) -> list[float]:
    return [round(size / 2**20, 1) for _, size in memory[:: max(len(memory) // 8, 1)]]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


class Soak:
    """Clients of one server."""

    def __init__(self, url: str, model: str, seconds: float, seed: int, users: int = USERS) -> None:
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
        self._users = users
        self._expected: dict[Case, str] = {}
        self._cases = [
            Case(f"Number {number}: the ferry left the harbor", 8 + 7 * (number % 5), seed)
            for number in range(12)
            for seed in (None, number)
        ]
        self._is_awake = asyncio.Event()
        self._is_awake.set()
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
                    # Not at once: a thousand clients that ask again and again are a load of their own.
                    self.report.done["asked again"] += 1
                elif answer.status_code != 200:
                    await answer.aread()
                    raise AssertionError(f"{answer.status_code}: {answer.text[:200]}")
                else:
                    return await self._read(answer, leaves=leaves)
            await self._is_awake.wait()
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
            self.report.lost += 1
            self.report.wrong.append(f"lost: {type(error).__name__}: {error}")
            return
        self.report.done["answered" if is_whole else "aborted"] += 1
        expected = self._expected[case]
        if text != expected if is_whole else not expected.startswith(text):
            self.report.different += 1
            self.report.wrong.append(f"{case} answered {text!r} instead of {expected!r}")

    async def _saturated_rate(self) -> float:
        until, count = time.monotonic() + PROBE_SECONDS, 0

        async def user() -> None:
            nonlocal count
            while time.monotonic() < until:
                await self._ask(self._random.choice(self._cases))
                count += 1

        began = time.monotonic()
        await asyncio.gather(*(user() for _ in range(self._users)))
        return count / (time.monotonic() - began)

    async def _arrive(self, until: float) -> None:
        """A Poisson process; all of its requests are waited for."""
        due = time.monotonic()
        places = asyncio.Semaphore(UNDER_WAY_PER_USER * self._users)
        async with asyncio.TaskGroup() as group:
            while due < until:
                await asyncio.sleep(max(due - time.monotonic(), 0.0))
                if places.locked():
                    self.report.done["held back"] += 1
                    await places.acquire()
                    due = time.monotonic()
                else:
                    await places.acquire()
                request = group.create_task(self._request(self._random.choice(self._cases)))
                request.add_done_callback(lambda _: places.release())
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
            self._is_awake.clear()
            await self._administer("/sleep")
            self.report.done["sleeps"] += 1
            await asyncio.sleep(RETRY_SECONDS)
            await self._administer("/wake_up")
            self._is_awake.set()
            await asyncio.sleep(SLEEP_SECONDS)

    async def _administer(self, path: str, **body: str) -> None:
        """Ask for a change until it is made: one that requests forbid now is made later."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                answer = await self._http.post(path, json=body or None)
            except httpx.HTTPError as error:
                self.report.lost += 1
                self.report.wrong.append(f"lost: {path}: {type(error).__name__}: {error}")
                return
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
            if self._is_awake.is_set():
                now = time.monotonic()
                self.report.memory.append((now, sum(map(_resident_bytes, pids))))
                if (used := await asyncio.to_thread(_device_bytes)) and self._is_awake.is_set():
                    self.report.device_memory.append((now, used))
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


def _device_bytes() -> int:
    """Memory in use on the first GPU, by any process; 0 without one."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    words = [program, "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    first = done.stdout.strip()
    return int(first) << 20 if first.isdecimal() else 0


@contextlib.contextmanager
def served(
    model: str, folder: Path, options: Sequence[str], kv_tokens: int
) -> Iterator[tuple[str, list[int]]]:
    """The server's address and its processes; its end must be that of a drain."""
    words = ["serve", model, "--port", "0", "--json", "--no-access-log", "--enable-sleep-mode"]
    # A cache of fixed size: one that grows on demand would look like a leak.
    words += ["--knob", "deterministic=true", "--lora-folder", str(folder)]
    words += ["--kv-tokens", str(kv_tokens)]
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


def soak(
    model: str, seconds: float, options: Sequence[str] = (), seed: int = 0, users: int = USERS
) -> Report:
    """Run the whole of it against a server of its own."""
    with tempfile.TemporaryDirectory() as folder:
        adapters = list(write_adapters(Path(folder) / "adapters", model))[:2]
        kv_tokens = KV_TOKENS_PER_USER * users
        with served(model, Path(folder) / "adapters", options, kv_tokens) as (url, pids):
            models = httpx.get(f"{url}/v1/models", trust_env=False, timeout=TIMEOUT_SECONDS)
            name = json.loads(models.text)["data"][0]["id"]
            return asyncio.run(Soak(url, name, seconds, seed, users).run(pids, adapters))


def main() -> int:
    """Parse the command line, soak, print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="what assay serve takes, such as smollm2")
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--users", type=int, default=USERS, help="whose rate is the full load")
    parser.epilog = "What follows -- are options of assay serve."
    own = sys.argv[1:]
    cut = own.index("--") if "--" in own else len(own)
    given = parser.parse_args(own[:cut])
    report = soak(given.model, given.seconds, own[cut + 1 :], given.seed, given.users)
    verdict = report.verdict()
    sys.stdout.write(json.dumps(verdict, indent=1) + "\n")
    sys.stdout.write(verdict_line(verdict, given.seconds) + "\n")
    return 1 if verdict["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""How long plans take, in CPU time: what two cores do in so many minutes."""

from __future__ import annotations

import json
import math
import random
import time
from pathlib import Path

import pytest

from assay.load.capacity import plan_capacity
from assay.planner.capacity.fleet_plan import FleetPlan

pytestmark = pytest.mark.slow
CORES = 2


def test_a_day_of_three_models_on_four_kinds_takes_three_minutes(tmp_path: Path) -> None:
    generator = random.Random(1)
    now, rows = 0.0, []
    while now < 86_400:
        now += generator.expovariate(1.2 + 0.9 * math.sin(2 * math.pi * (now / 86_400 - 0.3)))
        lengths = (generator.lognormvariate(6.5, 0.9), generator.lognormvariate(5.0, 0.7))
        prompt, output = (max(int(length), 1) for length in lengths)
        rows.append({"arrival_s": now, "input_tokens": prompt, "output_tokens": output})
    path = tmp_path / "day.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    start = time.process_time()
    plan = plan_capacity(
        path, model="llama-3.1-8b=0.5,qwen3-30b-a3b=0.3,llama-3.1-70b=0.2",
        slo="ttft=2s,tpot=60ms,p=95%", gpus=["h100", "h200", "b200", "a100"],
    )  # fmt: skip
    assert time.process_time() - start < CORES * 180
    assert isinstance(plan, FleetPlan)
    assert len(plan.hours) == 24


def test_an_hour_of_conversations_takes_a_minute(tmp_path: Path) -> None:
    """As many requests as the conversation trace of Mooncake has, with turns that share their beginnings."""
    generator = random.Random(2)
    rows, blocks = [], 1
    chats = [[0] for _ in range(3000)]
    for number in range(12_031):
        chat = generator.choice(chats)
        more = generator.randint(4, 24)
        if len(chat) > 200:
            del chat[1:]
        chat += range(blocks, blocks + more)
        blocks += more
        rows.append({
            "timestamp": 299 * number, "input_length": 512 * len(chat) - 100,
            "output_length": generator.randint(50, 700), "hash_ids": list(chat),
        })  # fmt: skip
    path = tmp_path / "chats.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    start = time.process_time()
    plan = plan_capacity(path, model="llama-3.1-70b", slo="ttft=20s,tpot=100ms,p=95%", bin="10m")
    assert time.process_time() - start < CORES * 60
    assert not isinstance(plan, FleetPlan)
    assert plan.best.gpus >= plan.floors[0].gpus

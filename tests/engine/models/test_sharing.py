"""Two models share a device under the scheduler: each has the output it has alone."""

import threading

from small_models import fixture_engine

from assay import xp
from assay.engine import SamplingParams
from assay.engine.core.device_sharing import DeviceSharing, ModelShare
from assay.runtime.scheduling import SECOND_NS, Scheduler
from chosen_device import new_device

PARAMS = SamplingParams(max_tokens=24, temperature=0.0, ignore_eos=True)
PROMPTS = [[7, 8, 9], [10] * 30, [11, 12]]


def outputs(engine):
    return [answer.token_ids for answer in engine.generate(PROMPTS, PARAMS)]


def test_two_models_share_a_device_by_quality_of_service():
    device = new_device()
    names = {"llama": "guaranteed", "qwen3": "best-effort"}
    expected = {}
    for name in names:
        with fixture_engine(name, device=device, deterministic=True) as engine:
            expected[name] = outputs(engine)
    scheduler = Scheduler(device, upload_bytes_per_second=10**10, download_bytes_per_second=10**10)
    got = {}

    def serve(name, qos):
        reserved = {"compute": SECOND_NS // 2} if qos == "guaranteed" else None
        task = scheduler.task(name, qos=qos, reserved=reserved)
        with fixture_engine(name, device=device, deterministic=True) as engine, task:
            got[name] = outputs(engine)

    threads = [threading.Thread(target=serve, args=pair) for pair in names.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert got == expected
    granted = dict.fromkeys(names, 0)
    for decision in scheduler.take_decisions().decisions:
        if decision.action == "grant":
            granted[decision.name] += 1
    # Each step requests a grant for its graph and its copies.
    assert min(granted.values()) >= 24
    assert scheduler.snapshot()["idle"]


def test_an_idle_model_holds_no_grants():
    device = new_device()
    sharing = DeviceSharing(device, [ModelShare("a", 50, True), ModelShare("b", 50)])
    sharing.admit()
    place = sharing.places["b"]
    x = xp.ones((256, 256), dtype=xp.float32, device=device)
    with place:
        # Launched ahead, and nobody asks for its end: the others would wait for its grants.
        x = x + x
        place.stepped(has_work=False)
        snapshot = place.task.snapshot()
    assert snapshot["grants_in_flight"] == 0
    assert snapshot["lanes"]["compute"]["grants"] == 1

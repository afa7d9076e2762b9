"""The exporter: its text, and a real Prometheus server that scrapes it."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from samples import HEADER, sample

from assay.errors import InputError
from assay.observe.telemetry.sample import Reading, Sample
from assay.observe.telemetry.sinks import prometheus
from assay.observe.telemetry.sinks.prometheus import PrometheusExporter
from assay.observe.telemetry.sinks.sink import Summary


@pytest.fixture
def exporter() -> Iterator[PrometheusExporter]:
    sink = PrometheusExporter(0)
    sink.open(HEADER)
    yield sink
    sink.close(Summary())


def scrape(sink: PrometheusExporter) -> dict[tuple[str, str], float]:
    url = f"http://127.0.0.1:{sink.port}/metrics"
    text = urllib.request.urlopen(url, timeout=5).read().decode()
    return {
        (one.name, one.labels.get("reason", "")): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def host_sample(tick: int, **values: float) -> Sample:
    return Sample(
        tick, tick, tick, "run-1", None, None, None, Reading("host", "h", 0, "host", dict(values))
    )


def test_fields_have_dcgms_names_and_units(exporter: PrometheusExporter) -> None:
    exporter.write(
        [
            sample(
                0,
                gpu_memory_used_bytes=3 << 20,
                gpu_energy_joules=2.5,
                gpu_sm_clock_hz=1.98e9,
                gpu_utilization=0.5,
                gpu_throttle=4,
                gpu_tensor_active=0.25,
            ),
            host_sample(0, host_cpu_steal=0.1, host_disk_read_bytes=7),
        ]
    )
    found = scrape(exporter)
    assert found["DCGM_FI_DEV_POWER_USAGE", ""] == 600.5
    assert found["DCGM_FI_DEV_FB_USED", ""] == 3
    assert found["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", ""] == 2500
    assert found["DCGM_FI_DEV_SM_CLOCK", ""] == 1980
    assert found["DCGM_FI_DEV_GPU_UTIL", ""] == 50
    assert found["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", ""] == 0.25
    assert found["assay_host_cpu_steal", ""] == 0.1
    assert found["assay_host_disk_read_bytes_total", ""] == 7
    assert found["assay_gpu_throttled", "power cap"] == 1
    assert found["assay_gpu_throttled", "thermal"] == 0


def test_processes_of_a_shared_gpu_have_series(exporter: PrometheusExporter) -> None:
    first = sample(0)
    first.reading.processes = [
        {"pid": 9, "name": 'a"b', "memory_bytes": 10, "utilization": 0.5},
        {"pid": 8, "name": None, "memory_bytes": None, "utilization": None},
    ]
    exporter.write([first, sample(1)])
    found = scrape(exporter)
    assert found["assay_gpu_process_memory_bytes", ""] == 10
    assert found["assay_gpu_process_utilization", ""] == 0.5


def test_rare_fields_stay_until_the_next_read_and_devices_go_stale(
    exporter: PrometheusExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter.write([host_sample(0, host_cpu_clock_hz=2e9, host_cpu_steal=0.5)])
    exporter.write([host_sample(1, host_cpu_steal=0.25)])
    assert scrape(exporter)["assay_host_cpu_clock_hz", ""] == 2e9
    assert scrape(exporter)["assay_host_cpu_steal", ""] == 0.25
    monkeypatch.setattr(prometheus, "STALE_S", -1.0)
    assert scrape(exporter) == {}


def test_it_listens_on_the_loopback_and_a_port_in_use_is_named(
    exporter: PrometheusExporter,
) -> None:
    assert exporter.host == "127.0.0.1"
    with pytest.raises(InputError, match="cannot listen: Address already in use"):
        PrometheusExporter(exporter.port).open(HEADER)


def ask(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_a_prometheus_server_scrapes_it_and_answers_queries(
    exporter: PrometheusExporter, tmp_path: Path
) -> None:
    binary = shutil.which("prometheus")
    if binary is None:
        pytest.skip("no prometheus on the path (Debian package prometheus)")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 250ms}\nscrape_configs:\n- job_name: assay\n"
        f"  static_configs: [{{targets: ['127.0.0.1:{exporter.port}']}}]\n"
    )
    exporter.write([sample(0, gpu_sm_clock_hz=1.755e9, gpu_throttle=0x24)])
    server = subprocess.Popen(
        [
            binary,
            f"--config.file={tmp_path}/prometheus.yml",
            f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        found: dict[str, Any] = {}
        end = time.monotonic() + 60
        wanted = 'sum by (UUID, reason) (assay_gpu_throttled{reason=~"power cap|thermal"})'
        queries = ["DCGM_FI_DEV_SM_CLOCK", wanted, 'up{job="assay"}']
        while len(found) < len(queries) and time.monotonic() < end:
            for query in queries:
                parameters = urllib.parse.urlencode({"query": query})
                try:
                    answer = ask(f"http://127.0.0.1:{port}/api/v1/query?{parameters}")
                except (urllib.error.URLError, ConnectionError):
                    break
                if answer["data"]["result"]:
                    found[query] = answer["data"]["result"]
            time.sleep(0.2)
    finally:
        server.terminate()
        errors = server.communicate(timeout=30)[1]
    assert set(found) == set(queries), errors[-2000:]
    (clock,) = found["DCGM_FI_DEV_SM_CLOCK"]
    assert clock["value"][1] == "1755"
    assert clock["metric"]["UUID"] == "GPU-1"
    assert clock["metric"]["modelName"] == "NVIDIA H200"
    assert clock["metric"]["hostname"] == "host-1"
    assert [one["value"][1] for one in found[wanted]] == ["1", "1"]
    assert found[queries[2]][0]["value"][1] == "1"

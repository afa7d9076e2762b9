"""The host: against psutil and the system's own files, and over folders made up for it."""

import os
import time
from pathlib import Path

import psutil
import pytest

from assay.observe.telemetry.fields import FIELDS
from assay.observe.telemetry.gaps import Gaps
from assay.observe.telemetry.sources.cgroup import Cgroup
from assay.observe.telemetry.sources.host import Host
from assay.observe.telemetry.sources.rapl import Rapl
from assay.observe.telemetry.sources.source import UnsupportedFieldError


def test_a_real_host_agrees_with_psutil() -> None:
    gaps = Gaps()
    host = Host(psutil, gaps)
    host.read(fast_only=False)
    end = time.monotonic() + 0.25
    while time.monotonic() < end:
        pass
    (reading,) = host.read(fast_only=False)
    values = reading.values
    assert set(values) <= set(FIELDS)
    assert values["host_cpu_count"] == psutil.cpu_count()
    assert values["host_cpu_usable"] == len(os.sched_getaffinity(0))
    assert values["host_memory_total_bytes"] == psutil.virtual_memory().total
    # This thread kept a core busy, apart from what the hypervisor took of it.
    busiest = float(values["host_cpu_busiest"])
    assert busiest + float(values["host_cpu_steal"]) * psutil.cpu_count() > 0.3
    assert 0 <= float(values["host_cpu_utilization"]) <= 1
    assert all(isinstance(value, FIELDS[name].type) for name, value in values.items())


def put(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def version_2(root: Path) -> Cgroup:
    put(root, "proc/self/cgroup", "0::/pod/box\n")
    put(root, "proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n")
    base = root / "sys/fs/cgroup"
    put(base, "pod/cpu.max", "150000 100000\n")
    put(base, "pod/memory.max", "8000000000\n")
    put(base, "pod/box/cpu.max", "max 100000\n")
    put(base, "pod/box/memory.max", "max\n")
    put(base, "pod/box/memory.current", "123456\n")
    put(
        base,
        "pod/box/cpu.stat",
        "usage_usec 2500000\nnr_periods 10\nnr_throttled 4\nthrottled_usec 750000\n",
    )
    return Cgroup(root)


def test_cgroup_version_2_takes_the_tightest_limit_of_its_ancestors(tmp_path: Path) -> None:
    group = version_2(tmp_path)
    assert group.limits() == {"cgroup_cpu_limit": 1.5, "cgroup_memory_limit_bytes": 8_000_000_000}
    assert group.memory() == {"cgroup_memory_used_bytes": 123456}
    assert group.cpu() == {
        "cgroup_cpu_seconds": 2.5,
        "cgroup_throttled_seconds": 0.75,
        "cgroup_throttled_periods": 4,
    }


def test_cgroup_version_1(tmp_path: Path) -> None:
    put(tmp_path, "proc/self/cgroup", "4:memory:/box\n3:cpu,cpuacct:/not/visible/here\n")
    put(
        tmp_path,
        "proc/self/mounts",
        "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n"
        "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n",
    )
    base = tmp_path / "sys/fs/cgroup"
    put(base, "cpu/cpu.cfs_quota_us", "400000\n")
    put(base, "cpu/cpu.cfs_period_us", "100000\n")
    put(base, "cpu/cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_time 1500000000\n")
    put(base, "cpu/cpuacct.usage", "7000000000\n")
    put(base, "memory/box/memory.limit_in_bytes", "9223372036854771712\n")
    put(base, "memory/box/memory.usage_in_bytes", "4096\n")
    group = Cgroup(tmp_path)
    assert group.limits() == {"cgroup_cpu_limit": 4.0, "cgroup_memory_limit_bytes": None}
    assert group.cpu() == {
        "cgroup_cpu_seconds": 7.0,
        "cgroup_throttled_seconds": 1.5,
        "cgroup_throttled_periods": 3,
    }
    assert group.memory() == {"cgroup_memory_used_bytes": 4096}


def test_without_cgroups_the_fields_are_missing_with_a_reason(tmp_path: Path) -> None:
    gaps = Gaps()
    host = Host(psutil, gaps, tmp_path)
    (reading,) = host.read(fast_only=False)
    host.read(fast_only=False)
    listed = {one.field: one.reason for one in gaps.listed()}
    assert listed["cgroup_cpu_seconds"] == "no cgroup with the cpu controller is visible"
    assert "not present" in listed["host_package_energy_joules"]
    assert "host_pressure_cpu" in listed
    assert "host_memory_used_bytes" in reading.values


def test_rapl_undoes_wrap_around_and_sums_packages(tmp_path: Path) -> None:
    for zone, name in (("0", "package-0"), ("1", "package-1"), ("0:0", "dram"), ("0:1", "core")):
        put(tmp_path, f"intel-rapl:{zone}/name", name + "\n")
        put(tmp_path, f"intel-rapl:{zone}/energy_uj", "900000\n")
        put(tmp_path, f"intel-rapl:{zone}/max_energy_range_uj", "1000000\n")
    rapl = Rapl(tmp_path)
    assert rapl.read() == {"host_package_energy_joules": 0.0, "host_dram_energy_joules": 0.0}
    put(tmp_path, "intel-rapl:0/energy_uj", "100000\n")
    put(tmp_path, "intel-rapl:1/energy_uj", "950000\n")
    found = rapl.read()
    assert found["host_package_energy_joules"] == pytest.approx(0.2 + 0.05)
    assert found["host_dram_energy_joules"] == 0.0


def test_rapl_that_may_not_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "intel-rapl:0/name", "package-0\n")
    put(tmp_path, "intel-rapl:0/energy_uj", "1\n")
    read = Path.read_text

    def refuse(path: Path, *arguments: object, **named: object) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return read(path, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(UnsupportedFieldError, match="Permission denied"):
        Rapl(tmp_path).read()


def test_pressure_is_a_share(tmp_path: Path) -> None:
    put(tmp_path, "proc/pressure/cpu", "some avg10=12.50 avg60=1.00 total=5\nfull avg10=0.00\n")
    (reading,) = Host(psutil, Gaps(), tmp_path).read(fast_only=False)
    assert reading.values["host_pressure_cpu"] == 0.125

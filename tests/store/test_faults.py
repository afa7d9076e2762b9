"""Killed processes, cut connections, full disks, two writers, flipped bytes: nothing is lost or believed."""

from collections import Counter
from pathlib import Path

import fault_worker
import pytest
from fault_campaign import Campaign
from s3_server import S3Server


@pytest.fixture(autouse=True)
def small_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("layout", "manifest", "pushing"):
        monkeypatch.setattr(f"assay.store.{module}.OBJECT_BYTES", fault_worker.OBJECT_BYTES)


def test_a_folder_under_faults(scratch: Path, tmp_path: Path) -> None:
    with Campaign(tmp_path, seed=1) as campaign:
        campaign.inject(26)
    assert campaign.injected.total() == 26
    assert len(campaign.injected) >= 4


def test_a_bucket_under_faults(s3: S3Server, scratch: Path, tmp_path: Path) -> None:
    with Campaign(tmp_path, seed=2, server=s3) as campaign:
        campaign.inject(14)
    assert campaign.injected["cut"]


@pytest.mark.slow
def test_500_faults(s3: S3Server, scratch: Path, tmp_path: Path) -> None:
    injected: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    for seed, (number, server) in enumerate([(300, None), (200, s3)]):
        folder = tmp_path / str(seed)
        folder.mkdir()
        with Campaign(folder, seed=10 + seed, server=server) as campaign:
            campaign.inject(number)
        injected += campaign.injected
        outcomes += campaign.outcomes
    print(f"{injected.total()} faults: {dict(injected)}; pushes: {dict(outcomes)}")
    assert injected.total() == 500

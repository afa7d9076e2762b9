"""Records boxes of PyTorch and spconv for the tests; run it where both are installed."""

from __future__ import annotations

import json
from pathlib import Path

from assay.runtime.hardware import device
from assay.workloads.contract import Missing
from assay.workloads.perception.workload import Perception
from small_detector import SMALL

TARGET = Path(__file__).with_name("perception_pytorch.json")
SEED = 3


def record() -> None:
    """Write the best boxes of one frame."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    workload = Perception(SMALL)
    data = workload.generate(SEED, 1)
    program = workload.rivals[0].prepare(data, device("cpu"))
    assert not isinstance(program, Missing), program.reason
    program.run()
    outputs = program.outputs()
    recorded = {
        "origin": f"PyTorch {torch.__version__} on a CPU, voxels by spconv",
        "seed": SEED,
        "sha256": data.sha256,
        "anchors": outputs["anchors"][0].tolist(),
        "labels": outputs["labels"][0].tolist(),
        "boxes": [[round(float(part), 4) for part in box] for box in outputs["boxes"][0]],
    }
    lines = ",\n".join(f' "{key}": {json.dumps(value)}' for key, value in recorded.items())
    TARGET.write_text(f"{{\n{lines}\n}}\n", encoding="ascii")


if __name__ == "__main__":
    record()

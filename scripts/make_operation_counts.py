"""Compile the stack's FLOP and byte counts of kernels to small tapes for `assay.ops`.

The equations are in `assay.stack.kernels`: run this after changing them. A test compares the file
with the registry.
"""

from __future__ import annotations

import base64
from pathlib import Path

from assay import json_records, stack

TARGET = Path(__file__).parent.parent / "python" / "assay" / "ops" / "counts.json"

ATTENTION = ("heads", "kv_heads", "width", "value_width", "element", "kv_element", "window")
COUNTS = {
    "kernels.gemm": (
        "rows", "columns", "depth", "weight_element", "activation_element", "output_element",
    ),
    "kernels.decode": ("batch", "context", *ATTENTION),
    "kernels.prefill": ("batch", "length", "keys", *ATTENTION, "caching"),
}  # fmt: skip
"""Which inputs each scope's FLOPs and bytes are counted from."""


def counts() -> dict[str, dict[str, object]]:
    """For each scope the inputs of its tape, and the tape; outputs are FLOPs and bytes."""
    registry = stack.registry()
    by_scope: dict[str, dict[str, object]] = {}
    for scope, inputs in COUNTS.items():
        compiled = registry.compile(
            inputs=[f"{scope}.{name}" for name in inputs],
            outputs=[f"{scope}.flops", f"{scope}.size"],
        )
        tape = base64.b64encode(compiled.tape.to_bytes()).decode("ascii")
        by_scope[scope] = {"inputs": list(inputs), "tape": tape}
    return by_scope


if __name__ == "__main__":
    TARGET.write_text(json_records.dumps(counts(), depth=1) + "\n", encoding="ascii")
    print(f"wrote {TARGET.name}")

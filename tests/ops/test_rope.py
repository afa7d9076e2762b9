"""Tables of RoPE, wherever they are made."""

from assay import ops
from assay.runtime import Device


def test_a_table_is_made_in_a_stream_too() -> None:
    device = Device("cpu")
    with device.stream():
        table = ops.rope_table(32, 8, interleaved=True, device=device)
    assert (table.cos_sin.to_numpy() == ops.rope_table(32, 8).cos_sin.to_numpy()).all()

"""Slots of draft tokens are those that the block manager gives to tokens once committed."""

from array import array

from hypothesis import given, strategies as st

from assay._native import BlockManager
from assay.engine.speculation.slots_ahead import SlotsAhead

SIZES = (12, 4, 16)


def written(slots, batch):
    rows, sequences, width = SIZES
    out = memoryview(array("i", [7] * (2 * rows + 2 * sequences + 1 + sequences * width)))
    slots.write_step(batch, SIZES, out)
    return out.tolist()


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 3)), min_size=1, max_size=4),
    st.integers(0, 5),
)
def test_rows_ahead_equal_rows_after_a_commit(lengths, ahead):
    manager = BlockManager(64, 4, prefix_caching=False)
    batch = []
    for length, count in lengths:
        sequence, _ = manager.open([], length + ahead + count)
        manager.commit(sequence, [1] * length)
        batch.append((sequence, count))
    slots = SlotsAhead(manager)
    slots.ahead = ahead
    found = written(slots, batch)
    for sequence, _ in batch:
        manager.commit(sequence, [1] * ahead)
    expected = written(manager, batch)
    rows, sequences, width = SIZES
    tables = 2 * rows + 2 * sequences + 1
    assert found[:tables] == expected[:tables]
    for index, (length, count) in enumerate(lengths):
        used = -(-(length + ahead + count) // 4)
        row = slice(tables + index * width, tables + index * width + used)
        assert found[row] == expected[row]

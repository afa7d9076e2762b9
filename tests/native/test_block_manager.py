import array

import pytest

from assay._native import BlockManager
from assay.errors import DeviceError, OutOfMemoryError


def test_prompt_with_a_cached_prefix_reuses_blocks():
    manager = BlockManager(8, 2)
    first, cached = manager.open([1, 2, 3, 4, 5], 5)
    assert cached == 0
    manager.commit(first, [1, 2, 3, 4, 5])
    assert manager.lookup([1, 2, 3, 4, 9]) == 4
    second, cached = manager.open([1, 2, 3, 9], 4)
    assert cached == 2
    assert manager.block_table(second)[0] == manager.block_table(first)[0]
    assert manager.length(second) == 2
    manager.close(first)
    manager.close(second)
    counts = manager.statistics()
    assert (counts["used"], counts["cached"], counts["free"]) == (0, 2, 6)
    manager.verify()


def test_write_step_pads_the_metadata():
    manager = BlockManager(8, 2)
    first, _ = manager.open([1, 2, 3], 3)
    second, _ = manager.open([7], 1)
    out = array.array("i", [99] * (4 + 4 + 4 + 3 + 3 * 2))
    manager.write_step([(first, 2), (second, 1)], (4, 3, 2), out)
    first_block, second_block = (manager.block_table(one)[0] for one in (first, second))
    slots = [first_block * 2, first_block * 2 + 1, second_block * 2]
    assert out[0:4].tolist() == [0, 1, 0, 0]
    assert out[4:8].tolist() == [*slots, -1]
    assert out[8:12].tolist() == [0, 2, 3, 3]
    assert out[12:15].tolist() == [2, 1, 0]
    assert out[15] == first_block
    assert out[17] == second_block


def test_exhausted_blocks_raise_out_of_memory_and_change_nothing():
    manager = BlockManager(2, 2)
    sequence, _ = manager.open([1, 2, 3], 3)
    before = manager.statistics()
    with pytest.raises(OutOfMemoryError, match="expected 1 free blocks, got 0"):
        manager.reserve(sequence, 5)
    assert manager.statistics() == before


def test_invalid_calls_name_what_was_expected():
    manager = BlockManager(2, 2)
    with pytest.raises(DeviceError, match="expected an open sequence, got 5"):
        manager.close(5)
    with pytest.raises(DeviceError, match="expected block_tokens at least 1, got 0"):
        BlockManager(2, 0)
    sequence, _ = manager.open([1], 1)
    with pytest.raises(DeviceError, match="stay within its 2 reserved tokens, got 3"):
        manager.commit(sequence, [1, 2, 3])
    with pytest.raises(DeviceError, match="at most 1 rows, got 2"):
        manager.write_step([(sequence, 2)], (1, 1, 1), array.array("i", [0] * 9))


def test_cached_blocks_move_to_another_manager():
    manager = BlockManager(4, 2)
    sequence, _ = manager.open([1, 2, 3, 4, 5], 5)
    manager.commit(sequence, [1, 2, 3, 4, 5])
    listed = manager.cached_blocks()
    assert [(parent, tokens) for _, parent, tokens in listed] == [(None, [1, 2]), (0, [3, 4])]
    other = BlockManager(1, 2)
    assert other.adopt(listed) == [0, None]
    assert other.lookup([1, 2, 3, 4, 5]) == 2
    with pytest.raises(DeviceError, match="cached block 0 comes before its parent"):
        other.adopt([(0, 0, [1, 2])])

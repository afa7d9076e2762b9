import array

import pytest

from assay._native import KvCache
from assay.errors import DeviceError, OutOfMemoryError


def test_a_prompt_that_begins_alike_takes_blocks_over():
    cache = KvCache(8, 2)
    first, cached = cache.open([1, 2, 3, 4, 5], 5)
    assert cached == 0
    cache.commit(first, [1, 2, 3, 4, 5])
    assert cache.lookup([1, 2, 3, 4, 9]) == 4
    second, cached = cache.open([1, 2, 3, 9], 4)
    assert cached == 2
    assert cache.table(second)[0] == cache.table(first)[0]
    assert cache.length(second) == 2
    cache.close(first)
    cache.close(second)
    counts = cache.statistics()
    assert (counts["used"], counts["cached"], counts["free"]) == (0, 2, 6)
    cache.verify()


def test_a_step_is_written_with_its_padding():
    cache = KvCache(8, 2)
    first, _ = cache.open([1, 2, 3], 3)
    second, _ = cache.open([7], 1)
    out = array.array("i", [99] * (4 + 4 + 4 + 3 + 3 * 2))
    cache.write_step([(first, 2), (second, 1)], (4, 3, 2), out)
    slots = [cache.table(first)[0] * 2, cache.table(first)[0] * 2 + 1, cache.table(second)[0] * 2]
    assert out[0:4].tolist() == [0, 1, 0, 0]
    assert out[4:8].tolist() == [*slots, -1]
    assert out[8:12].tolist() == [0, 2, 3, 3]
    assert out[12:15].tolist() == [2, 1, 0]
    assert out[15] == cache.table(first)[0]
    assert out[17] == cache.table(second)[0]


def test_no_room_is_an_out_of_memory_error_that_changes_nothing():
    cache = KvCache(2, 2)
    sequence, _ = cache.open([1, 2, 3], 3)
    before = cache.statistics()
    with pytest.raises(OutOfMemoryError, match="expected 1 free blocks, got 0"):
        cache.reserve(sequence, 5)
    assert cache.statistics() == before


def test_wrong_calls_name_what_was_expected():
    cache = KvCache(2, 2)
    with pytest.raises(DeviceError, match="expected an open sequence, got 5"):
        cache.close(5)
    with pytest.raises(DeviceError, match="expected block_tokens at least 1, got 0"):
        KvCache(2, 0)
    sequence, _ = cache.open([1], 1)
    with pytest.raises(DeviceError, match="stay within its 2 reserved tokens, got 3"):
        cache.commit(sequence, [1, 2, 3])
    with pytest.raises(DeviceError, match="at most 1 rows, got 2"):
        cache.write_step([(sequence, 2)], (1, 1, 1), array.array("i", [0] * 9))


def test_cached_blocks_move_to_another_cache():
    cache = KvCache(4, 2)
    sequence, _ = cache.open([1, 2, 3, 4, 5], 5)
    cache.commit(sequence, [1, 2, 3, 4, 5])
    listed = cache.cached_blocks()
    assert [(before, tokens) for _, before, tokens in listed] == [(None, [1, 2]), (0, [3, 4])]
    other = KvCache(1, 2)
    assert other.adopt(listed) == [0, None]
    assert other.lookup([1, 2, 3, 4, 5]) == 2
    with pytest.raises(DeviceError, match="cached block 0 comes before the one"):
        other.adopt([(0, 0, [1, 2])])

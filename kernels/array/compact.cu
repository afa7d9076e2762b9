// Stream compaction: the indices of the set flags, in order.
//
// Algorithm: scan-based stream compaction [Billeter et al. 2009]: counts of tiles, a prefix sum of the counts
//   (scan.cu), then an ordered write. Tiling: a CTA a tile of THREADS * 16 flags, one 16-byte load a thread; indices
//   are staged in shared memory, so that stores are coalesced.
//
// Options: THREADS.
// Entries, grid ceil(count / tile), CTA of THREADS:
//   flag_counts: the set flags of each tile. Arguments: flags (a byte each), counts (int64, one per tile), count.
//   compact: Arguments: flags, prefix_counts (the counts, summed up to and with each), indices (int64), count, selected
//     (the capacity of indices; 64 bits each).
#include "prefix_sum.cuh"

constexpr int ITEMS_PER_THREAD = 16;

// The flags of a thread, as a bit mask.
DEVICE u32 load_flags(const u8* flags, i64 count) {
    const i64 first = (i64(blockIdx.x) * THREADS + threadIdx.x) * ITEMS_PER_THREAD;
    u32 flag_bits = 0;
    if (first + ITEMS_PER_THREAD <= count && (u64(flags) & 15) == 0) {
        const uint4 words = load16(flags + first);
#pragma unroll
        for (int i = 0; i < ITEMS_PER_THREAD; i++)
            flag_bits |= u32((word(words, i / 4) >> i % 4 * 8 & 255) != 0) << i;
    } else {
        for (int i = 0; i < ITEMS_PER_THREAD && first + i < count; i++)
            flag_bits |= u32(flags[first + i] != 0) << i;
    }
    return flag_bits;
}

KERNEL __launch_bounds__(THREADS) flag_counts(const u8* flags, i64* counts, i64 count) {
    launch_dependents();
    wait_on_dependency();
    u32 total;
    exclusive_sum<THREADS>(__popc(load_flags(flags, count)), total);
    if (threadIdx.x == 0)
        counts[blockIdx.x] = total;
}

KERNEL __launch_bounds__(THREADS)
compact(const u8* flags, const i64* prefix_counts, i64* indices, i64 count, i64 selected) {
    __shared__ u16 tile_indices[THREADS * ITEMS_PER_THREAD];
    launch_dependents();
    wait_on_dependency();
    u32 flag_bits = load_flags(flags, count), total;
    u32 rank = exclusive_sum<THREADS>(__popc(flag_bits), total);
    for (; flag_bits; flag_bits &= flag_bits - 1)
        tile_indices[rank++] = u16(threadIdx.x * ITEMS_PER_THREAD + __ffs(flag_bits) - 1);
    __syncthreads();
    const i64 base = blockIdx.x ? prefix_counts[blockIdx.x - 1] : 0;
    for (u32 i = threadIdx.x; i < total && base + i < selected; i += THREADS)
        indices[base + i] = i64(blockIdx.x) * THREADS * ITEMS_PER_THREAD + tile_indices[i];
}

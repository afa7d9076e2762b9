// The places of the flags that are set, in order.
//
// Options: THREADS (a block takes a span of THREADS * 16 flags).
// Entries, grid ceil(count / span), block THREADS:
//   flag_counts: how many are set in each span. Arguments: flags (a byte each), tallies (int64, one per span), count.
//   compact: Arguments: flags, ends (tallies, summed up to and with each), places (int64), count, chosen (how many
//     places there is room for; 64 bits each).
#include "prelude.cuh"

constexpr int EACH = 16, WARPS = THREADS / 32;

// The flags of a thread, a bit each.
DEVICE u32 set_flags(const u8* flags, i64 count) {
    const i64 first = (i64(blockIdx.x) * THREADS + threadIdx.x) * EACH;
    u32 set = 0;
    if (first + EACH <= count && (u64(flags) & 15) == 0) {
        const uint4 words = load16(flags + first);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            set |= u32((word(words, i / 4) >> i % 4 * 8 & 255) != 0) << i;
    } else {
        for (int i = 0; i < EACH && first + i < count; i++)
            set |= u32(flags[first + i] != 0) << i;
    }
    return set;
}

// How many are in the threads before this one, and in all.
DEVICE u32 number_before(u32 own, u32& total) {
    __shared__ u32 warps[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u32 through = own;
#pragma unroll
    for (int offset = 1; offset < 32; offset <<= 1) {
        const u32 other = __shfl_up_sync(~0u, through, offset);
        through += lane >= offset ? other : 0;
    }
    if (lane == 31)
        warps[warp] = through;
    __syncthreads();
    total = 0;
    for (int w = 0; w < WARPS; w++) {
        through += w < warp ? warps[w] : 0;
        total += warps[w];
    }
    return through - own;
}

KERNEL __launch_bounds__(THREADS) flag_counts(const u8* flags, i64* tallies, i64 count) {
    start_next_kernel();
    wait_for_previous_kernel();
    u32 total;
    number_before(__popc(set_flags(flags, count)), total);
    if (threadIdx.x == 0)
        tallies[blockIdx.x] = total;
}

KERNEL __launch_bounds__(THREADS) compact(const u8* flags, const i64* ends, i64* places, i64 count, i64 chosen) {
    __shared__ u16 found[THREADS * EACH];
    start_next_kernel();
    wait_for_previous_kernel();
    u32 set = set_flags(flags, count), total;
    u32 at = number_before(__popc(set), total);
    for (; set; set &= set - 1)
        found[at++] = u16(threadIdx.x * EACH + __ffs(set) - 1);
    __syncthreads();
    const i64 base = blockIdx.x ? ends[blockIdx.x - 1] : 0;
    for (u32 i = threadIdx.x; i < total && base + i < chosen; i += THREADS)
        places[base + i] = i64(blockIdx.x) * THREADS * EACH + found[i];
}

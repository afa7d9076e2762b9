// Sorts rows, stably; NaN is the largest, as in NumPy.
//
// Algorithm: least-significant-digit radix sort with 8-bit digits. Long rows follow Onesweep [Adinets & Merrill 2022]:
//   one upfront histogram of all digits, then one pass over the data a digit, in which tiles get their global offsets
//   by decoupled look-back [Merrill & Garland 2016]. Rows that fit a CTA are sorted in shared memory, all digits in one
//   launch.
// Tiling: a tile is THREADS * ITEMS_PER_THREAD keys in registers, warp-striped; warps rank their keys by ballot-based
//   digit matching (warp-level multisplit [Ashkiani et al. 2016]) and exchange them through shared memory before the
//   store.
// Departures: floats are compared through order-preserving bits, in which all NaN are equal and so are both zeros;
//   values are not changed. Short rows are sorted several to a CTA, with a last pass by row. A pass whose row has one
//   digit only copies, as happens in the upper bytes of small integers.
//
// Options: KEY (u8, u16, u32, u64: an unsigned type of the element's size), SIGNED (0, 1), INFINITY_BITS (the bits of
//   infinity for floats, else 0), WITH_INDICES (1: carries the indices that elements came from), THREADS (256, 512),
//   ITEMS_PER_THREAD (a tile is at most 2^13).
// Entries, all with CTAs of THREADS; `flip` is 255 to sort in descending order, else 0:
//   sort_rows: grid ceil(rows / rows_per_cta): rows of which rows_per_cta, at most 256, are one tile at most.
//     Arguments: x, values (null: none), output_indices (int64; null: none), rows (64 bits), length, flip, rows_per_cta
//     (1, or WITH_INDICES is 1: rows sorted together are separated by their indices in the end).
//   sort_count: grid rows * ctas_per_row: the digit histograms of each row. Arguments: x, counts (rows x bytes of an
//     element x 256, u32; zero before), length, flip, ctas_per_row.
//   sort_move: grid rows * tiles: one pass, by one digit. Arguments: x, indices (u32; null: the identity), starts
//     (counts, exclusively summed over the 256), look_back (rows x tiles x 256, u32, and one more; zero before), values
//     (null: none), indices_out (u32; null: none), output_indices (int64; null: none), length (below 2^30), flip,
//     tiles, shift (of the digit).
#include "prelude.cuh"

constexpr int WARPS = THREADS / 32, TILE_ITEMS = THREADS * ITEMS_PER_THREAD, DIGITS = 256;
static_assert(THREADS >= DIGITS && TILE_ITEMS <= 1 << 13);

// The digit of an element's order-preserving bits; all NaN are equal, and so are both zeros.
DEVICE u32 digit_of(KEY raw, u32 shift, u32 flip) {
    constexpr KEY top = KEY(KEY(1) << (sizeof(KEY) * 8 - 1)), infinity = KEY(INFINITY_BITS);
    KEY ordered = SIGNED ? KEY(raw ^ top) : raw;
    if (INFINITY_BITS) {
        const KEY magnitude = KEY(raw & KEY(~top));
        ordered = magnitude == 0 ? top : raw & top ? KEY(~raw) : KEY(raw | top);
        ordered = magnitude > infinity ? KEY(~KEY(0)) : ordered;
    }
    return (u32(ordered >> shift) & (DIGITS - 1)) ^ flip;
}

struct Shared {
    u16 counts[WARPS][DIGITS];  // of each warp; then summed over the warps before it
    u16 digit_starts[DIGITS];   // of each digit within the tile
    u32 digit_counts[DIGITS];   // of the tile
    u32 global_bases[DIGITS];   // offset from a position in the tile to one in the row
    u32 tile_number;
    u32 warp_sums[DIGITS / 32];
    union {
        KEY raw[TILE_ITEMS];
        u32 indices[TILE_ITEMS];
    };
};

// A tile in registers, warp-striped: a warp has 32 * ITEMS_PER_THREAD consecutive elements, a lane every 32nd of them.
struct Tile {
    KEY raw[ITEMS_PER_THREAD];
    u32 indices[ITEMS_PER_THREAD];
    u32 ranks[ITEMS_PER_THREAD];
    u32 first, count, flip;

    DEVICE Tile(u32 count, u32 flip)
        : first(threadIdx.x / 32 * 32 * ITEMS_PER_THREAD + threadIdx.x % 32), count(count), flip(flip) {}
    DEVICE bool is_valid(int i) const { return first + i * 32 < count; }
    // The digit of an element: eight bits from a shift on or, BY_ROW, its row from the row length. Padding has the
    // last digit, and a stable sort leaves it at the end.
    template <bool BY_ROW> DEVICE u32 digit(int i, u32 shift_or_length) const {
        if (!is_valid(i))
            return DIGITS - 1;
        return BY_ROW ? indices[i] / shift_or_length : digit_of(raw[i], shift_or_length, flip);
    }

    // Ranks the elements within the tile.
    template <bool BY_ROW> DEVICE void rank(Shared& shared, u32 shift_or_length) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        u16* counts = shared.counts[warp];
        for (int i = lane; i < DIGITS; i += 32)
            counts[i] = 0;
        __syncwarp();
#pragma unroll
        for (int i = 0; i < ITEMS_PER_THREAD; i++) {
            const u32 digit = this->digit<BY_ROW>(i, shift_or_length);
            u32 peers = ~0u;
#pragma unroll
            for (int bit = 0; bit < 8; bit++) {
                const bool set = digit >> bit & 1;
                const u32 others = __ballot_sync(~0u, set);
                peers &= set ? others : ~others;
            }
            const u32 before = peers & ((1u << lane) - 1), earlier = counts[digit];
            __syncwarp();
            if (before == 0)
                counts[digit] = u16(earlier + __popc(peers));
            __syncwarp();
            ranks[i] = digit << 16 | (earlier + __popc(before));
        }
        __syncthreads();
        u32 total = 0, inclusive = 0;
        if (threadIdx.x < DIGITS) {
            for (int w = 0; w < WARPS; w++) {
                const u32 count = shared.counts[w][threadIdx.x];
                shared.counts[w][threadIdx.x] = u16(total);
                total += count;
            }
            inclusive = total;
#pragma unroll
            for (int offset = 1; offset < 32; offset <<= 1) {
                const u32 other = __shfl_up_sync(~0u, inclusive, offset);
                inclusive += lane >= offset ? other : 0;
            }
            if (lane == 31)
                shared.warp_sums[warp] = inclusive;
        }
        __syncthreads();
        if (threadIdx.x < DIGITS) {
            for (int w = 0; w < warp; w++)
                inclusive += shared.warp_sums[w];
            shared.digit_starts[threadIdx.x] = u16(inclusive - total);
            shared.digit_counts[threadIdx.x] = total;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < ITEMS_PER_THREAD; i++) {
            const u32 digit = ranks[i] >> 16;
            ranks[i] = (ranks[i] & 0xffff) + shared.digit_starts[digit] + counts[digit];
        }
    }

    template <class T> DEVICE void exchange(T (&memory)[TILE_ITEMS], T (&elements)[ITEMS_PER_THREAD]) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < ITEMS_PER_THREAD; i++)
            memory[ranks[i]] = elements[i];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < ITEMS_PER_THREAD; i++)
            elements[i] = memory[first + i * 32];
    }
    DEVICE void exchange(Shared& shared) {
        exchange(shared.raw, raw);
        if (WITH_INDICES)
            exchange(shared.indices, indices);
    }
};

KERNEL __launch_bounds__(THREADS, ITEMS_PER_THREAD > 8 ? 1 : 1024 / THREADS)
sort_rows(const KEY* x, KEY* values, i64* output_indices, u64 rows, u32 length, u32 flip, u32 rows_per_cta) {
    __shared__ Shared shared;
    launch_dependents();
    wait_on_dependency();
    const u64 row = u64(blockIdx.x) * rows_per_cta, begin = row * length;
    Tile tile(u32(rows - row < rows_per_cta ? rows - row : rows_per_cta) * length, flip);
#pragma unroll
    for (int i = 0; i < ITEMS_PER_THREAD; i++) {
        tile.indices[i] = tile.first + i * 32;
        tile.raw[i] = tile.is_valid(i) ? x[begin + tile.first + i * 32] : KEY();
    }
    for (u32 shift = 0; shift < sizeof(KEY) * 8; shift += 8) {
        tile.rank<false>(shared, shift);
        tile.exchange(shared);
    }
    if (WITH_INDICES && rows_per_cta > 1) {
        tile.rank<true>(shared, length);
        tile.exchange(shared);
    }
#pragma unroll
    for (int i = 0; i < ITEMS_PER_THREAD; i++) {
        if (values && tile.is_valid(i))
            values[begin + tile.first + i * 32] = tile.raw[i];
        if (WITH_INDICES && output_indices && tile.is_valid(i))
            output_indices[begin + tile.first + i * 32] = tile.indices[i] % length;
    }
}

KERNEL __launch_bounds__(THREADS) sort_count(const KEY* x, u32* counts, u32 length, u32 flip, u32 ctas_per_row) {
    // Several copies of the histogram, to reduce contention of atomics on the same digit.
    constexpr int COPIES = 4, COUNTERS = sizeof(KEY) * DIGITS;
    __shared__ u32 histogram[COUNTERS][COPIES];
    launch_dependents();
    wait_on_dependency();
    for (int i = threadIdx.x; i < COUNTERS * COPIES; i += THREADS)
        histogram[i / COPIES][i % COPIES] = 0;
    __syncthreads();
    const u64 row = blockIdx.x / ctas_per_row;
    const u32 first = blockIdx.x % ctas_per_row * THREADS + threadIdx.x;
#pragma unroll 4
    for (u32 index = first; index < length; index += ctas_per_row * THREADS) {
        const KEY raw = x[row * length + index];
#pragma unroll
        for (u32 byte = 0; byte < sizeof(KEY); byte++)
            atomicAdd(&histogram[byte * DIGITS + digit_of(raw, byte * 8, flip)][threadIdx.x % COPIES], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < COUNTERS; i += THREADS) {
        u32 sum = 0;
        for (int copy = 0; copy < COPIES; copy++)
            sum += histogram[i][copy];
        if (sum)
            atomicAdd(&counts[row * COUNTERS + i], sum);
    }
}

// The status word of a tile and a digit in decoupled look-back: the tile's own count (aggregate), or the count of all
// tiles up to it (inclusive prefix). 0: not yet available.
constexpr u32 AGGREGATE = 1u << 30, INCLUSIVE_PREFIX = 2u << 30, VALUE_MASK = AGGREGATE - 1;

// The exclusive prefix of a digit over the preceding tiles, all of which have started.
DEVICE u32 look_back_sum(u32* look_back, u32 tile_index, u32 count) {
    volatile u32* own_word = look_back + u64(tile_index) * DIGITS;
    *own_word = (tile_index ? AGGREGATE : INCLUSIVE_PREFIX) | count;
    u32 before = 0;
    for (u32 remaining = tile_index; remaining;) {
        // Reads several predecessors at once, to overlap the latency of L2.
        u32 words[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            words[i] = i < remaining ? *(own_word - u64(tile_index - remaining + 1 + i) * DIGITS) : INCLUSIVE_PREFIX;
        bool blocked = false;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            blocked |= words[i] == 0;
            if (remaining && !blocked) {
                before += words[i] & VALUE_MASK;
                remaining = words[i] & INCLUSIVE_PREFIX ? 0 : remaining - 1;
            }
        }
    }
    if (tile_index)
        *own_word = INCLUSIVE_PREFIX | (before + count);
    return before;
}

KERNEL __launch_bounds__(THREADS, ITEMS_PER_THREAD > 8 ? 1 : 1024 / THREADS)
sort_move(const KEY* x, const u32* indices, const u32* starts, u32* look_back, KEY* values, u32* indices_out,
          i64* output_indices, u32 length, u32 flip, u32 tiles, u32 shift) {
    __shared__ Shared shared;
    launch_dependents();
    wait_on_dependency();
    // Tiles are numbered in the order in which CTAs start, so that no CTA waits for one that is not resident.
    if (threadIdx.x == 0)
        shared.tile_number = atomicAdd(&look_back[u64(gridDim.x) * DIGITS], 1u);
    __syncthreads();
    const u64 row = shared.tile_number / tiles;
    const u32 tile_index = shared.tile_number % tiles, begin = tile_index * TILE_ITEMS, remaining = length - begin;
    Tile tile(remaining < TILE_ITEMS ? remaining : TILE_ITEMS, flip);
#pragma unroll
    for (int i = 0; i < ITEMS_PER_THREAD; i++) {
        const u32 index = begin + tile.first + i * 32;
        tile.raw[i] = tile.is_valid(i) ? x[row * length + index] : KEY();
        if (WITH_INDICES)
            tile.indices[i] = indices && tile.is_valid(i) ? indices[row * length + index] : index;
    }
    starts += (row * sizeof(KEY) + shift / 8) * DIGITS;
    const u32 digit = threadIdx.x % DIGITS, start = starts[digit];
    // If all keys of the row have the same digit, the pass is a copy.
    const bool single_digit = __syncthreads_or((digit + 1 < DIGITS ? starts[digit + 1] : length) - start == length);
    if (!single_digit) {
        tile.rank<false>(shared, shift);
        if (threadIdx.x < DIGITS) {
            u32* words = look_back + row * tiles * DIGITS + digit;
            const u32 before = look_back_sum(words, tile_index, shared.digit_counts[digit]);
            shared.global_bases[digit] = start + before - shared.digit_starts[digit];
        }
        tile.exchange(shared);
    }
#pragma unroll
    for (int i = 0; i < ITEMS_PER_THREAD; i++) {
        if (!tile.is_valid(i))
            continue;
        const u32 base = single_digit ? begin : shared.global_bases[tile.digit<false>(i, shift)];
        const u64 target = row * length + u32(base + tile.first + i * 32);
        if (values)
            values[target] = tile.raw[i];
        if (WITH_INDICES && indices_out)
            indices_out[target] = tile.indices[i];
        if (WITH_INDICES && output_indices)
            output_indices[target] = tile.indices[i];
    }
}

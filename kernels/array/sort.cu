// Sorts rows, stably, by eight bits of their elements after the other, the lowest first; NaN counts as the largest, as
// in NumPy.
//
// Options: BITS (u8, u16, u32, u64: the bits of an element), SIGNED (0, 1), INFINITE (of floating elements the bits of
//   infinity, else 0), PLACES (1: with the places that elements came from), THREADS (256, 512), EACH (elements of a
//   thread: a block takes a span of THREADS * EACH, at most 2^13).
// Entries, all with blocks of THREADS; `flip` is 255 to sort from the largest on, else 0:
//   sort_rows: grid ceil(rows / together): rows of which `together`, at most 256, are one span at most, in shared
//     memory. Arguments: x, values (null: none), numbers (int64; null: none), rows (64 bits), length, flip, together (1, or
//     PLACES is 1: rows sorted as one are told apart by their places in the end).
//   sort_count: grid rows * parts: how often each digit occurs in each row. Arguments: x, counts (rows x bytes of an
//     element x 256, u32; zero before), length, flip, parts.
//   sort_move: grid rows * spans: every element to where one digit of it goes. Arguments: x, places (u32; null: elements
//     are where they came from), starts (counts, summed up to each among the 256), told (rows x spans x 256, u32, and one
//     more; zero before), values (null: none), places_out (u32; null: none), numbers (int64; null: none), length (below
//     2^30), flip, spans, shift (of the digit).
#include "prelude.cuh"

constexpr int WARPS = THREADS / 32, SPAN = THREADS * EACH, DIGITS = 256;
static_assert(THREADS >= DIGITS && SPAN <= 1 << 13);

// The digit that an element is sorted by; all NaN are one, and so are both zeros.
DEVICE u32 digit_of(BITS raw, u32 shift, u32 flip) {
    constexpr BITS top = BITS(BITS(1) << (sizeof(BITS) * 8 - 1)), infinite = BITS(INFINITE);
    BITS ordered = SIGNED ? BITS(raw ^ top) : raw;
    if (INFINITE) {
        const BITS magnitude = BITS(raw & BITS(~top));
        ordered = magnitude == 0 ? top : raw & top ? BITS(~raw) : BITS(raw | top);
        ordered = magnitude > infinite ? BITS(~BITS(0)) : ordered;
    }
    return (u32(ordered >> shift) & (DIGITS - 1)) ^ flip;
}

struct Shared {
    u16 counts[WARPS][DIGITS];  // of each warp's digits; then of those of the warps before it
    u16 begins[DIGITS];         // where each digit begins
    u32 totals[DIGITS];         // how often each occurs
    u32 bases[DIGITS];
    u32 number;
    u32 sums[DIGITS / 32];
    union {
        BITS raw[SPAN];
        u32 places[SPAN];
    };
};

// A span in registers: a warp has 32 * EACH elements in a row, of which a lane has every 32nd.
struct Span {
    BITS raw[EACH];
    u32 places[EACH];
    u32 to[EACH];
    u32 first, count, flip;

    DEVICE Span(u32 count, u32 flip)
        : first(threadIdx.x / 32 * 32 * EACH + threadIdx.x % 32), count(count), flip(flip) {}
    DEVICE bool has(int i) const { return first + i * 32 < count; }
    // What an element is sorted by: eight bits from a shift on, or its row, of a length. What fills up is behind all
    // others, and stays there.
    template <bool BY_ROW> DEVICE u32 digit(int i, u32 which) const {
        return !has(i) ? DIGITS - 1 : BY_ROW ? places[i] / which : digit_of(raw[i], which, flip);
    }

    // Where each element goes among those of the span.
    template <bool BY_ROW> DEVICE void rank(Shared& shared, u32 which) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        u16* counts = shared.counts[warp];
        for (int i = lane; i < DIGITS; i += 32)
            counts[i] = 0;
        __syncwarp();
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const u32 digit = this->digit<BY_ROW>(i, which);
            u32 equal = ~0u;
#pragma unroll
            for (int bit = 0; bit < 8; bit++) {
                const bool set = digit >> bit & 1;
                const u32 others = __ballot_sync(~0u, set);
                equal &= set ? others : ~others;
            }
            const u32 before = equal & ((1u << lane) - 1), seen = counts[digit];
            __syncwarp();
            if (before == 0)
                counts[digit] = u16(seen + __popc(equal));
            __syncwarp();
            to[i] = digit << 16 | (seen + __popc(before));
        }
        __syncthreads();
        u32 total = 0, through = 0;
        if (threadIdx.x < DIGITS) {
            for (int w = 0; w < WARPS; w++) {
                const u32 own = shared.counts[w][threadIdx.x];
                shared.counts[w][threadIdx.x] = u16(total);
                total += own;
            }
            through = total;
#pragma unroll
            for (int offset = 1; offset < 32; offset <<= 1) {
                const u32 other = __shfl_up_sync(~0u, through, offset);
                through += lane >= offset ? other : 0;
            }
            if (lane == 31)
                shared.sums[warp] = through;
        }
        __syncthreads();
        if (threadIdx.x < DIGITS) {
            for (int w = 0; w < warp; w++)
                through += shared.sums[w];
            shared.begins[threadIdx.x] = u16(through - total);
            shared.totals[threadIdx.x] = total;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const u32 digit = to[i] >> 16;
            to[i] = (to[i] & 0xffff) + shared.begins[digit] + counts[digit];
        }
    }

    template <class T> DEVICE void exchange(T (&memory)[SPAN], T (&elements)[EACH]) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < EACH; i++)
            memory[to[i]] = elements[i];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < EACH; i++)
            elements[i] = memory[first + i * 32];
    }
    DEVICE void exchange(Shared& shared) {
        exchange(shared.raw, raw);
        if (PLACES)
            exchange(shared.places, places);
    }
};

KERNEL __launch_bounds__(THREADS, EACH > 8 ? 1 : 1024 / THREADS)
sort_rows(const BITS* x, BITS* values, i64* numbers, u64 rows, u32 length, u32 flip, u32 together) {
    __shared__ Shared shared;
    start_next_kernel();
    wait_for_previous_kernel();
    const u64 row = u64(blockIdx.x) * together, begin = row * length;
    Span span(u32(rows - row < together ? rows - row : together) * length, flip);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        span.places[i] = span.first + i * 32;
        span.raw[i] = span.has(i) ? x[begin + span.first + i * 32] : BITS();
    }
    for (u32 shift = 0; shift < sizeof(BITS) * 8; shift += 8) {
        span.rank<false>(shared, shift);
        span.exchange(shared);
    }
    if (PLACES && together > 1) {
        span.rank<true>(shared, length);
        span.exchange(shared);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (values && span.has(i))
            values[begin + span.first + i * 32] = span.raw[i];
        if (PLACES && numbers && span.has(i))
            numbers[begin + span.first + i * 32] = span.places[i] % length;
    }
}

KERNEL __launch_bounds__(THREADS) sort_count(const BITS* x, u32* counts, u32 length, u32 flip, u32 parts) {
    // Several of each, so that threads with the same digit seldom wait for each other.
    constexpr int COPIES = 4, COUNTED = sizeof(BITS) * DIGITS;
    __shared__ u32 seen[COUNTED][COPIES];
    start_next_kernel();
    wait_for_previous_kernel();
    for (int i = threadIdx.x; i < COUNTED * COPIES; i += THREADS)
        seen[i / COPIES][i % COPIES] = 0;
    __syncthreads();
    const u64 row = blockIdx.x / parts;
#pragma unroll 4
    for (u32 place = blockIdx.x % parts * THREADS + threadIdx.x; place < length; place += parts * THREADS) {
        const BITS raw = x[row * length + place];
#pragma unroll
        for (u32 byte = 0; byte < sizeof(BITS); byte++)
            atomicAdd(&seen[byte * DIGITS + digit_of(raw, byte * 8, flip)][threadIdx.x % COPIES], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < COUNTED; i += THREADS) {
        u32 sum = 0;
        for (int copy = 0; copy < COPIES; copy++)
            sum += seen[i][copy];
        if (sum)
            atomicAdd(&counts[row * COUNTED + i], sum);
    }
}

// What a span tells those behind it of a digit: how often it has it, or, with all before it, they have. 0: not yet.
constexpr u32 OWN = 1u << 30, ALL = 2u << 30, NUMBER = OWN - 1;

// How often a digit occurs in the spans before this one, of which every one has begun.
DEVICE u32 number_before(u32* told, u32 at, u32 own) {
    volatile u32* mine = told + u64(at) * DIGITS;
    *mine = (at ? OWN : ALL) | own;
    u32 before = 0;
    for (u32 left = at; left;) {
        // Several at once: each is a long way off.
        u32 words[8];
#pragma unroll
        for (u32 i = 0; i < 8; i++)
            words[i] = i < left ? *(mine - u64(at - left + 1 + i) * DIGITS) : ALL;
        bool waits = false;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            waits |= words[i] == 0;
            if (left && !waits) {
                before += words[i] & NUMBER;
                left = words[i] & ALL ? 0 : left - 1;
            }
        }
    }
    if (at)
        *mine = ALL | (before + own);
    return before;
}

KERNEL __launch_bounds__(THREADS, EACH > 8 ? 1 : 1024 / THREADS)
sort_move(const BITS* x, const u32* places, const u32* starts, u32* told, BITS* values, u32* places_out, i64* numbers,
          u32 length, u32 flip, u32 spans, u32 shift) {
    __shared__ Shared shared;
    start_next_kernel();
    wait_for_previous_kernel();
    // Spans are numbered as blocks begin, so that none waits for one that cannot begin before it ends.
    if (threadIdx.x == 0)
        shared.number = atomicAdd(&told[u64(gridDim.x) * DIGITS], 1u);
    __syncthreads();
    const u64 row = shared.number / spans;
    const u32 at = shared.number % spans, begin = at * SPAN, left = length - begin;
    Span span(left < SPAN ? left : SPAN, flip);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const u32 place = begin + span.first + i * 32;
        span.raw[i] = span.has(i) ? x[row * length + place] : BITS();
        if (PLACES)
            span.places[i] = places && span.has(i) ? places[row * length + place] : place;
    }
    starts += (row * sizeof(BITS) + shift / 8) * DIGITS;
    const u32 digit = threadIdx.x % DIGITS, start = starts[digit];
    // Where all of a row have one digit they stay where they are: so it is with the upper bytes of small integers.
    const bool alike = __syncthreads_or((digit + 1 < DIGITS ? starts[digit + 1] : length) - start == length);
    if (!alike) {
        span.rank<false>(shared, shift);
        if (threadIdx.x < DIGITS) {
            const u32 before = number_before(told + row * spans * DIGITS + digit, at, shared.totals[digit]);
            shared.bases[digit] = start + before - shared.begins[digit];
        }
        span.exchange(shared);
    }
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        if (!span.has(i))
            continue;
        const u32 base = alike ? begin : shared.bases[span.digit<false>(i, shift)];
        const u64 to = row * length + u32(base + span.first + i * 32);
        if (values)
            values[to] = span.raw[i];
        if (PLACES && places_out)
            places_out[to] = span.places[i];
        if (PLACES && numbers)
            numbers[to] = span.places[i];
    }
}

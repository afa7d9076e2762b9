// Sorts rows, stably, with the place that each element came from; NaN counts as the largest, as in NumPy.
//
// Options: TYPE (in memory), COMPUTED (the type compared in), DESCENDING (0, 1), SPAN (a power of two: elements that a
//   block sorts in shared memory), THREADS (SPAN / 2 is a multiple of it).
// Entries, over `length` rounded up to a power of two at least SPAN, called `full`:
//   sort_spans: grid (full / SPAN, rows): loads x, sorts spans alternately up and down. Arguments: x, keys, places,
//     length (32 bits), full (64 bits).
//   sort_step: grid (full / 2 / THREADS, rows): one exchange at distance `apart` >= SPAN / 2 within runs of `run`.
//     Arguments: keys, places, length, full, run, apart.
//   sort_finish: grid (full / SPAN, rows): all exchanges at distances below SPAN within runs of `run`. Arguments: keys,
//     places, length, full, run.
//   For run = 2 SPAN, 4 SPAN ... full: sort_step for apart = run / 2 down to SPAN, then sort_finish.
//   sort_write: grid (ceil(length / THREADS), rows): what was sorted without what fills up. Arguments: keys, places,
//     values (rows x length of TYPE; null: none), numbers (rows x length, int64; null: none), length, full.
//   keys (rows x full of COMPUTED) and places (rows x full, uint32) hold the result; block is THREADS.
#include "expressions.cuh"

// Whether element a goes behind b; equal ones keep their order, and what fills up goes last.
DEVICE bool behind(COMPUTED a, u32 place_a, COMPUTED b, u32 place_b, u32 length) {
    if (place_a >= length || place_b >= length)
        return place_a > place_b;
    const bool nan_a = isnan_(a), nan_b = isnan_(b);
    if (nan_a != nan_b)
        return DESCENDING ? nan_b : nan_a;
    if (!nan_a && a != b)
        return DESCENDING ? a < b : a > b;
    return place_a > place_b;
}

struct Span {
    COMPUTED keys[SPAN];
    u32 places[SPAN];
    // One exchange; `at` is where the span begins in the row, which decides the direction of a run.
    DEVICE void exchange(u64 at, u64 run, int apart, u32 length) {
        for (int i = threadIdx.x; i < SPAN / 2; i += THREADS) {
            const int low = i / apart * apart * 2 + i % apart, high = low + apart;
            const bool up = ((at + low) & run) == 0;
            if (behind(keys[low], places[low], keys[high], places[high], length) == up) {
                const COMPUTED key = keys[low];
                const u32 place = places[low];
                keys[low] = keys[high], places[low] = places[high];
                keys[high] = key, places[high] = place;
            }
        }
        __syncthreads();
    }
};

KERNEL __launch_bounds__(THREADS) sort_spans(const TYPE* x, COMPUTED* keys, u32* places, u32 length, u64 full) {
    __shared__ Span span;
    start_next_kernel();
    wait_for_previous_kernel();
    const u64 at = u64(blockIdx.x) * SPAN, row = blockIdx.y;
    for (int i = threadIdx.x; i < SPAN; i += THREADS) {
        span.keys[i] = at + i < length ? computed<COMPUTED>(x[row * length + at + i]) : COMPUTED();
        span.places[i] = u32(at + i);
    }
    __syncthreads();
    for (u64 run = 2; run <= SPAN; run *= 2)
        for (int apart = int(run / 2); apart; apart /= 2)
            span.exchange(at, run, apart, length);
    for (int i = threadIdx.x; i < SPAN; i += THREADS) {
        keys[row * full + at + i] = span.keys[i];
        places[row * full + at + i] = span.places[i];
    }
}

KERNEL __launch_bounds__(THREADS) sort_step(COMPUTED* keys, u32* places, u32 length, u64 full, u64 run, u64 apart) {
    start_next_kernel();
    wait_for_previous_kernel();
    const u64 i = u64(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= full / 2)
        return;
    keys += blockIdx.y * full;
    places += blockIdx.y * full;
    const u64 low = i / apart * apart * 2 + i % apart, high = low + apart;
    const COMPUTED a = keys[low], b = keys[high];
    const u32 place_a = places[low], place_b = places[high];
    if (behind(a, place_a, b, place_b, length) == ((low & run) == 0)) {
        keys[low] = b, places[low] = place_b;
        keys[high] = a, places[high] = place_a;
    }
}

KERNEL __launch_bounds__(THREADS) sort_finish(COMPUTED* keys, u32* places, u32 length, u64 full, u64 run) {
    __shared__ Span span;
    start_next_kernel();
    wait_for_previous_kernel();
    const u64 at = u64(blockIdx.x) * SPAN, row = blockIdx.y;
    for (int i = threadIdx.x; i < SPAN; i += THREADS) {
        span.keys[i] = keys[row * full + at + i];
        span.places[i] = places[row * full + at + i];
    }
    __syncthreads();
    for (int apart = SPAN / 2; apart; apart /= 2)
        span.exchange(at, run, apart, length);
    for (int i = threadIdx.x; i < SPAN; i += THREADS) {
        keys[row * full + at + i] = span.keys[i];
        places[row * full + at + i] = span.places[i];
    }
}

KERNEL __launch_bounds__(THREADS)
sort_write(const COMPUTED* keys, const u32* places, TYPE* values, i64* numbers, u32 length, u64 full) {
    start_next_kernel();
    wait_for_previous_kernel();
    const u64 i = u64(blockIdx.x) * THREADS + threadIdx.x, row = blockIdx.y;
    if (i >= length)
        return;
    if (values)
        values[row * length + i] = Stored<TYPE>::from(keys[row * full + i]);
    if (numbers)
        numbers[row * length + i] = places[row * full + i];
}

// The place, along an axis, of the first element that is largest or smallest; NaN is both, as in NumPy.
//
// Options: TYPE (in memory), COMPUTED (the type compared in), LARGEST (0, 1), ROWS (as in reduce.cu).
// Launch: as reduce.cu. Arguments: x (outer x length x inner), places (of its elements among those of a longer axis,
//   int64; null: they are those themselves), values (of type TYPE; where a part's extreme goes, null: nowhere), out
//   (int64), outer, length, inner, parts, each (64 bits each).
#include "expressions.cuh"

constexpr int AHEAD = 8;

struct Found {
    COMPUTED value;
    TYPE stored;
    i64 place;
    // Whether another one comes first among equals, or is further out.
    DEVICE bool yields(const Found& other) const {
        if (other.place < 0 || place < 0)
            return place < 0;
        const bool nan = isnan_(value), other_nan = isnan_(other.value);
        if (nan || other_nan)
            return nan == other_nan ? other.place < place : other_nan;
        if (value == other.value)
            return other.place < place;
        return LARGEST ? value < other.value : value > other.value;
    }
    DEVICE void meet(const Found& other) {
        if (yields(other))
            *this = other;
    }
};

KERNEL extreme_place(const TYPE* x, const i64* places, TYPE* values, i64* out, i64 outer, i64 length, i64 inner,
                     i64 parts, i64 each) {
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 part = blockIdx.y;
#if ROWS
    const i64 row = i64(blockIdx.x) * blockDim.y + threadIdx.y, column = 0;
    const int begin = threadIdx.x, step = blockDim.x;
#else
    const i64 across = (inner + blockDim.x - 1) / blockDim.x, row = blockIdx.x / across;
    const i64 column = (blockIdx.x % across) * blockDim.x + threadIdx.x;
    const int begin = 0, step = 1;
#endif
    const bool inside = row < outer && column < inner;
    const i64 end = !inside ? 0 : (part + 1) * each < length ? (part + 1) * each : length;
    Found best = {COMPUTED(), TYPE(), -1};
    const i64 first = row * length * inner + column;
    i64 i = part * each + begin;
    // Several loads are under way at once.
    for (; i + (AHEAD - 1) * step < end; i += AHEAD * step) {
        TYPE v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            v[j] = x[first + (i + j * step) * inner];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const i64 place = i + j * step;
            best.meet({computed<COMPUTED>(v[j]), v[j], places ? places[first + place * inner] : place});
        }
    }
    for (; i < end; i += step) {
        const TYPE v = x[first + i * inner];
        best.meet({computed<COMPUTED>(v), v, places ? places[first + i * inner] : i});
    }
#if ROWS
    __shared__ Found all[512];
    const int at = threadIdx.y * blockDim.x + threadIdx.x;
    all[at] = best;
    __syncthreads();
    for (int half = blockDim.x / 2; half; half /= 2) {
        if (threadIdx.x < half)
            all[at].meet(all[at + half]);
        __syncthreads();
    }
    best = all[at];
    if (threadIdx.x)
        return;
#endif
    if (!inside)
        return;
    const i64 to = (row * parts + part) * inner + column;
    out[to] = best.place;
    if (values)
        values[to] = best.stored;
}

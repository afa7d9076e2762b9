// The place, along an axis, of the first element that is largest or smallest; NaN is both, as in NumPy.
//
// Options: TYPE (in memory), COMPUTED (the type compared in), LARGEST (0, 1), ROWS, TOGETHER (as in reduce.cu).
// Launch: as reduce.cu, with at most 512 threads. Arguments: x (outer x length x inner), places (of its elements among
//   those of a longer axis, int64; null: they are those themselves), values (of type TYPE; where a part's extreme goes,
//   null: nowhere), out (int64), outer, length, inner, parts, each (64 bits each).
#include "expressions.cuh"

constexpr int AHEAD = 8 / TOGETHER > 4 ? 8 / TOGETHER : 4;

// Whether b is further out than a; nothing is further than NaN.
DEVICE bool further(COMPUTED a, COMPUTED b) { return !(LARGEST ? b <= a : b >= a) && !isnan_(a); }

struct Found {
    COMPUTED value;
    i64 place;  // -1: none
    // Among equals the first stays, so a thread looks at its elements in order.
    DEVICE void look_at(COMPUTED other, i64 at) {
        if (further(value, other))
            value = other, place = at;
    }
    DEVICE void meet(const Found& other) {
        const bool equal = !further(value, other.value) && !further(other.value, value);
        if (other.place >= 0 && (place < 0 || further(value, other.value) || (equal && other.place < place)))
            *this = other;
    }
};

KERNEL argreduce(const TYPE* x, const i64* places, TYPE* values, i64* out, i64 outer, i64 length, i64 inner,
                     i64 parts, i64 each) {
    typedef Several<TYPE, TOGETHER> Piece;
    start_next_kernel();
    wait_for_previous_kernel();
    const i64 part = blockIdx.y;
#if ROWS
    const i64 row = i64(blockIdx.x) * blockDim.y + threadIdx.y, column = 0;
    const int own = threadIdx.x, step = blockDim.x;
#else
    const i64 across = (inner + blockDim.x - 1) / blockDim.x, row = blockIdx.x / across;
    const i64 column = (blockIdx.x % across) * blockDim.x + threadIdx.x;
    const int own = 0, step = 1;
#endif
    const bool inside = row < outer && column < inner;
    const i64 begin = part * each / TOGETHER, last = (part + 1) * each < length ? (part + 1) * each : length;
    const i64 end = inside ? last / TOGETHER : 0;
    const i64 first = row * length * inner + column;
    const Piece* from = reinterpret_cast<const Piece*>(x + first);
    i64 i = begin + own;
    Found best = {COMPUTED(), -1};
    if (i < end)
        best = {computed<COMPUTED>(from[i * inner].v[0]), i * TOGETHER};
    // Several loads are under way at once.
    for (; i + (AHEAD - 1) * step < end; i += AHEAD * step) {
        Piece v[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            v[j] = from[(i + j * step) * inner];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
#pragma unroll
            for (int k = 0; k < TOGETHER; k++)
                best.look_at(computed<COMPUTED>(v[j].v[k]), (i + j * step) * TOGETHER + k);
    }
    for (; i < end; i += step) {
        const Piece v = from[i * inner];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++)
            best.look_at(computed<COMPUTED>(v.v[k]), i * TOGETHER + k);
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
    // A part behind the end of the axis tells of its first element, which an earlier part tells of too.
    const i64 place = best.place < 0 ? 0 : best.place, found = first + place * inner;
    out[to] = places ? places[found] : place;
    if (values)
        values[to] = x[found];
}

// Scatters elements along an axis by index: out[o][indices[j]][i] = x[o][j][i]. The last of equal indices wins.
//
// Algorithm: none published. Duplicate indices are resolved by a first pass in which each index claims its target with
//   atomicMax of its position, so that the result does not depend on the order of threads. Tiling: one access a thread.
//
// Options: ACCESS_BYTES (as in gather.cu).
// Entries, CTA of any size:
//   scatter_claim: grid ceil(count / CTA): the last index of each target. Arguments: indices (int64), claims (u32, one
//     per target, zero before), axis, count (64 bits each).
//   scatter: grid ceil(total / CTA). Arguments: x, indices, claims (null: indices are distinct), out, axis, count,
//     inner (in accesses), total (outer * count * inner; 64 bits each).
//   A negative index counts from the end; one that is out of bounds is skipped.
#include "prelude.cuh"

typedef AccessType<ACCESS_BYTES>::Type Access;

DEVICE i64 normalize_index(i64 index, i64 axis) {
    index += index < 0 ? axis : 0;
    return index >= 0 && index < axis ? index : -1;
}

KERNEL scatter_claim(const i64* indices, u32* claims, i64 axis, i64 count) {
    launch_dependents();
    wait_on_dependency();
    const i64 j = i64(blockIdx.x) * blockDim.x + threadIdx.x;
    const i64 target = j < count ? normalize_index(indices[j], axis) : -1;
    if (target >= 0)
        atomicMax(&claims[target], u32(j + 1));
}

KERNEL scatter(const Access* x, const i64* indices, const u32* claims, Access* out, i64 axis, i64 count, i64 inner,
               i64 total) {
    launch_dependents();
    wait_on_dependency();
    const i64 at = i64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= total)
        return;
    const i64 row = at / inner, i = at - row * inner, o = row / count, j = row - o * count;
    const i64 target = normalize_index(indices[j], axis);
    if (target >= 0 && (!claims || claims[target] == u32(j + 1)))
        out[(o * axis + target) * inner + i] = x[at];
}

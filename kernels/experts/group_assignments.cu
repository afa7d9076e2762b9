// The assignments of tokens to experts, grouped by expert and cut into tiles for a grouped GEMM.
//
// Algorithm: counting sort by expert, as moe_align_block_size in vLLM. Tiling: one CTA; counters in shared memory.
// Departures: tiles are not padded: a tile has a first assignment and a count. The order within an expert is any, as a
//   row's result does not depend on the other rows of its tile.
//
// Options: TILE_ROWS (assignments of a tile).
// Launch: grid 1, CTA of 1024, shared bytes 4 * (2 * experts_count + 1).
// Arguments: experts (assignments, int32; -1: none), order (assignments, int32: assignments by expert), tiles
//   (max_tiles x 3, int32: expert or -1, first index in `order`, rows), assignments, experts_count, max_tiles.
#include "prelude.cuh"

KERNEL __launch_bounds__(1024)
group_assignments(const int* experts, int* order, int* tiles, int assignments, int experts_count,
                  int max_tiles TRACE_PARAMETER) {
    TRACE_SPAN(0);
    extern __shared__ int dynamic[];
    int *counts = dynamic, *starts = counts + experts_count;
    launch_dependents();
    wait_on_dependency();
    for (int i = threadIdx.x; i < experts_count; i += blockDim.x)
        counts[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < assignments; i += blockDim.x)
        if (experts[i] >= 0)
            atomicAdd(counts + experts[i], 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        int start = 0, tile = 0;
        for (int expert = 0; expert < experts_count; expert++) {
            starts[expert] = start;
            for (int first = 0; first < counts[expert]; first += TILE_ROWS, tile++) {
                tiles[tile * 3] = expert;
                tiles[tile * 3 + 1] = start + first;
                tiles[tile * 3 + 2] = min(counts[expert] - first, TILE_ROWS);
            }
            start += counts[expert];
        }
        starts[experts_count] = tile;
    }
    __syncthreads();
    for (int i = starts[experts_count] + threadIdx.x; i < max_tiles; i += blockDim.x)
        tiles[i * 3] = -1;
    for (int i = threadIdx.x; i < assignments; i += blockDim.x)
        if (experts[i] >= 0)
            order[atomicAdd(starts + experts[i], 1)] = i;
}

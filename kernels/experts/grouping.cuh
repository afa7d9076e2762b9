// The assignments of tokens to experts, grouped by expert and cut into tiles, in shared memory of every CTA.
//
// Algorithm: counting sort by expert, as moe_align_block_size in vLLM. Every CTA computes it by itself, so that no
//   kernel has to precede a grouped GEMM.
// Departures: tiles are not padded: a tile has a first assignment and a count. Atomics rank the assignments of an
//   expert in an order that differs from CTA to CTA. Within a tile that does not matter; but where an expert has
//   several tiles, other CTAs compute other tiles of the same outputs, so all must cut alike: those are sorted.
//
// Options: EXPERTS, MAX_ASSIGNMENTS.
#pragma once
#include "prelude.cuh"

// Assignments of one expert, by their position in the order of experts.
struct RowTile {
    u16 expert, first, rows;
};

// TILE_ROWS assignments of a tile, by a CTA of THREADS.
template <int TILE_ROWS, int THREADS> struct Grouping {
    static constexpr int EXPERTS_PER_LANE = (EXPERTS + 31) / 32;
    static constexpr int ASSIGNMENTS_PER_THREAD = (MAX_ASSIGNMENTS + THREADS - 1) / THREADS;
    static constexpr int MAX_TILES = MAX_ASSIGNMENTS < MAX_ASSIGNMENTS / TILE_ROWS + EXPERTS
                                         ? MAX_ASSIGNMENTS
                                         : MAX_ASSIGNMENTS / TILE_ROWS + EXPERTS;
    int counts[EXPERTS], starts[EXPERTS];
    u16 order[MAX_ASSIGNMENTS];
    RowTile tiles[MAX_TILES];
    int num_tiles;

    // An assignment to no expert (a negative one) is in no tile. Begins and ends with a barrier of the CTA.
    DEVICE void build(const int* experts, int assignments) {
        for (int i = threadIdx.x; i < EXPERTS; i += THREADS)
            counts[i] = 0;
        int own[ASSIGNMENTS_PER_THREAD], ranks[ASSIGNMENTS_PER_THREAD];
#pragma unroll
        for (int j = 0; j < ASSIGNMENTS_PER_THREAD; j++) {
            const int i = threadIdx.x + j * THREADS;
            own[j] = i < assignments ? __ldcg(experts + i) : -1;
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < ASSIGNMENTS_PER_THREAD; j++)
            ranks[j] = own[j] >= 0 ? atomicAdd(counts + own[j], 1) : 0;
        __syncthreads();
        if (threadIdx.x < 32)
            scan();
        __syncthreads();
#pragma unroll
        for (int j = 0; j < ASSIGNMENTS_PER_THREAD; j++)
            if (own[j] >= 0)
                order[starts[own[j]] + ranks[j]] = u16(threadIdx.x + j * THREADS);
        __syncthreads();
#pragma unroll
        for (int j = 0; j < ASSIGNMENTS_PER_THREAD; j++)
            if (own[j] >= 0 && counts[own[j]] > TILE_ROWS)
                ranks[j] = rank_in_batch(own[j], threadIdx.x + j * THREADS);
        __syncthreads();
#pragma unroll
        for (int j = 0; j < ASSIGNMENTS_PER_THREAD; j++)
            if (own[j] >= 0 && counts[own[j]] > TILE_ROWS)
                order[starts[own[j]] + ranks[j]] = u16(threadIdx.x + j * THREADS);
        __syncthreads();
    }
    // How many assignments of the expert come before this one in the batch.
    DEVICE int rank_in_batch(int expert, int assignment) const {
        const u16* all = order + starts[expert];
        int rank = 0;
#pragma unroll 4
        for (int i = 0; i < counts[expert]; i++)
            rank += all[i] < assignment;
        return rank;
    }
    // Exclusive sums of counts and of tiles over the experts, by one warp; a lane has consecutive experts.
    DEVICE void scan() {
        const int lane = threadIdx.x, begin = lane * EXPERTS_PER_LANE;
        int rows = 0, row_tiles = 0;
#pragma unroll 4
        for (int i = begin; i < min(begin + EXPERTS_PER_LANE, EXPERTS); i++) {
            rows += counts[i];
            row_tiles += ceil_divide(counts[i], TILE_ROWS);
        }
        int row = rows, tile = row_tiles;
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const int other_row = __shfl_up_sync(~0u, row, offset), other_tile = __shfl_up_sync(~0u, tile, offset);
            row += lane >= offset ? other_row : 0;
            tile += lane >= offset ? other_tile : 0;
        }
        if (lane == 31)
            num_tiles = tile;
        row -= rows;
        tile -= row_tiles;
#pragma unroll 1
        for (int i = begin; i < min(begin + EXPERTS_PER_LANE, EXPERTS); i++) {
            starts[i] = row;
            for (int first = 0; first < counts[i]; first += TILE_ROWS, tile++)
                tiles[tile] = {u16(i), u16(row + first), u16(min(counts[i] - first, TILE_ROWS))};
            row += counts[i];
        }
    }
};

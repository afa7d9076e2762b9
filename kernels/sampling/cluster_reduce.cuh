// A row over a thread block cluster: sums over all threads.
//
// Options: THREADS, CLUSTER_SIZE, as of sample.cu.
#pragma once
#define CLUSTER (CLUSTER_SIZE > 1)
#include "cluster.cuh"

constexpr int CTA_WARPS = THREADS / 32;

// The rank of this CTA in its cluster.
DEVICE u32 cta_rank() { return blockIdx.x % CLUSTER_SIZE; }

// All-reduce of three sums over all threads of a cluster.
struct ClusterSum {
    u64 warp_sums[2][CTA_WARPS][3];
    u64 cta_sums[2][3];

    // Double-buffered: no CTA can be two calls ahead of a reader, so one cluster barrier a call is enough.
    DEVICE void all_reduce(u64 (&v)[3], int buffer) {
#pragma unroll
        for (int i = 0; i < 3; i++) {
#pragma unroll
            for (int offset = 16; offset; offset >>= 1)
                v[i] += __shfl_xor_sync(~0u, v[i], offset);
            if (threadIdx.x % 32 == 0)
                warp_sums[buffer][threadIdx.x / 32][i] = v[i];
        }
        __syncthreads();
        if (threadIdx.x < 3) {
            u64 sum = 0;
            for (int w = 0; w < CTA_WARPS; w++)
                sum += warp_sums[buffer][w][threadIdx.x];
            cta_sums[buffer][threadIdx.x] = sum;
        }
        cluster_sync();
#pragma unroll
        for (int i = 0; i < 3; i++) {
            v[i] = 0;
            for (u32 rank = 0; rank < CLUSTER_SIZE; rank++)
                v[i] += load_dsmem(&cta_sums[buffer][i], rank);
        }
    }
    // The first sum over the warps of the cluster that precede this one.
    DEVICE u64 exclusive_sum(int buffer, int warp) {
        u64 sum = 0;
        for (u32 rank = 0; rank < cta_rank(); rank++)
            sum += load_dsmem(&cta_sums[buffer][0], rank);
        for (int w = 0; w < warp; w++)
            sum += warp_sums[buffer][w][0];
        return sum;
    }
};

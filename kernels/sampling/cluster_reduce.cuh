// The blocks of a row: a barrier, each other's memory, and sums over all of their threads.
//
// Options: THREADS, CLUSTER, as of sample.cu.
#pragma once
#include "prelude.cuh"

constexpr int WARPS_HERE = THREADS / 32;

// The place of this block among those of its row.
DEVICE u32 block_here() { return blockIdx.x % CLUSTER; }

#if CLUSTER > 1
DEVICE void wait_for_row() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
DEVICE u64 read_block(const u64* p, u32 block) {
    u32 address;
    u64 v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(p)), "r"(block));
    asm volatile("ld.shared::cluster.u64 %0, [%1];" : "=l"(v) : "r"(address) : "memory");
    return v;
}
#else
DEVICE void wait_for_row() { __syncthreads(); }
DEVICE u64 read_block(const u64* p, u32) { return *p; }
#endif

// Sums over all threads of all blocks of a row, three at a time.
struct Exchange {
    u64 parts[2][WARPS_HERE][3];
    u64 sums[2][3];

    // Two places by turns: nobody can be two calls ahead of a reader, so one barrier is enough.
    DEVICE void add(u64 (&v)[3], int turn) {
#pragma unroll
        for (int i = 0; i < 3; i++) {
#pragma unroll
            for (int offset = 16; offset; offset >>= 1)
                v[i] += __shfl_xor_sync(~0u, v[i], offset);
            if (threadIdx.x % 32 == 0)
                parts[turn][threadIdx.x / 32][i] = v[i];
        }
        __syncthreads();
        if (threadIdx.x < 3) {
            u64 sum = 0;
            for (int w = 0; w < WARPS_HERE; w++)
                sum += parts[turn][w][threadIdx.x];
            sums[turn][threadIdx.x] = sum;
        }
        wait_for_row();
#pragma unroll
        for (int i = 0; i < 3; i++) {
            v[i] = 0;
            for (u32 block = 0; block < CLUSTER; block++)
                v[i] += read_block(&sums[turn][i], block);
        }
    }
    // What the warps before this one of the row added as their first number.
    DEVICE u64 before(int turn, int warp) {
        u64 sum = 0;
        for (u32 block = 0; block < block_here(); block++)
            sum += read_block(&sums[turn][0], block);
        for (int w = 0; w < warp; w++)
            sum += parts[turn][w][0];
        return sum;
    }
};

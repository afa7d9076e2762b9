// The likeliest tokens in order, in shared memory: what is kept is mostly among them.
#pragma once
#include "cluster_reduce.cuh"

constexpr int LISTED = 2048;  // tokens that may be listed

// Chances are added as whole numbers of 2^-40: such sums do not depend on their order.
DEVICE u64 units(float chance) { return u64(chance * 1099511627776.0f); }

// The likeliest tokens: chance in the upper half, and a number that falls as the token's rises.
struct List {
    u64 keys[LISTED];
    u64 running[LISTED];  // sums of the chances up to here
    u64 warps[WARPS_HERE];
    int count;

    DEVICE static u64 key(float chance, int token) { return u64(__float_as_uint(chance)) << 32 | u32(~token); }
    DEVICE int token(int i) const { return ~int(u32(keys[i])); }
    DEVICE float chance(int i) const { return __uint_as_float(u32(keys[i] >> 32)); }

    // Highest first. Every thread of the block calls this, after a barrier.
    DEVICE void sort() {
        int size = 32;
        while (size < count)
            size *= 2;
        for (int i = count + threadIdx.x; i < size; i += THREADS)
            keys[i] = 0;
        __syncthreads();
        for (int run = 2; run <= size; run *= 2)
            for (int apart = run / 2; apart; apart /= 2) {
                for (int i = threadIdx.x; i < size / 2; i += THREADS) {
                    const int low = i / apart * apart * 2 + i % apart, high = low + apart;
                    const u64 a = keys[low], b = keys[high];
                    if ((a < b) == ((low & run) == 0)) {
                        keys[low] = b;
                        keys[high] = a;
                    }
                }
                __syncthreads();
            }
    }
    DEVICE void add_up() {
        constexpr int each = LISTED / THREADS;
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = threadIdx.x * each;
        u64 sum = 0;
#pragma unroll
        for (int i = 0; i < each; i++) {
            sum += first + i < count ? units(chance(first + i)) : 0;
            running[first + i] = sum;
        }
        u64 before = sum;
#pragma unroll
        for (int offset = 1; offset < 32; offset <<= 1) {
            const u64 other = __shfl_up_sync(~0u, before, offset);
            before += lane >= offset ? other : 0;
        }
        if (lane == 31)
            warps[warp] = before;
        __syncthreads();
        before -= sum;
        for (int w = 0; w < warp; w++)
            before += warps[w];
#pragma unroll
        for (int i = 0; i < each; i++)
            running[first + i] += before;
        __syncthreads();
    }
    // The first place at which the chances reach what is wanted.
    DEVICE int reached(u64 wanted) const {
        int low = 0, high = count - 1;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (running[middle] >= wanted)
                high = middle;
            else
                low = middle + 1;
        }
        return low;
    }
    DEVICE int draw(u64 kept, float part, u64 total, double uniform) const {
        total = kept < count ? running[kept - 1] : total;
        if (part < 1.0f)
            total = min(total, running[reached(max(1ull, u64(ceil(double(part) * double(total)))))]);
        return token(reached(min(u64(uniform * double(total)), total - 1) + 1));
    }
};

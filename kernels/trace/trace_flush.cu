// Appends the slots of a graph to the ring of records and clears them: the last node of a traced graph.
//
// A record is three words (region, launches, the time of this launch) and two a launch (start, latest end; 0: none).
//
// Launch: grid 1, CTA of any size.
// Arguments: slots, launches, region, ring, mask (words of the ring - 1; a power of two of words), head (words so far).
#define TRACE 1
#include "prelude.cuh"
#undef wait_on_dependency

KERNEL trace_flush(u64* slots, u64 launches, u64 region, u64* ring, u64 mask, u64* head) {
    __shared__ u64 first;
    launch_dependents();
    wait_on_dependency();
    if (threadIdx.x == 0) {
        // Graphs of other streams may flush at the same time.
        first = atomicAdd(head, 3 + 2 * launches);
        ring[first & mask] = region;
        ring[first + 1 & mask] = launches;
        ring[first + 2 & mask] = global_timer();
    }
    __syncthreads();
    for (u64 i = threadIdx.x; i < 2 * launches; i += blockDim.x) {
        ring[first + 3 + i & mask] = slots[i];
        slots[i] = 0;
    }
}

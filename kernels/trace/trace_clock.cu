// Reads the global timer for a comparison with the host's clock, and finds its resolution.
//
// Launch: one thread. Arguments: out (three words of host memory: first reading, smallest step, last reading, which is
// stored last).
#define TRACE 1
#include "prelude.cuh"
#undef wait_on_dependency

KERNEL trace_clock(volatile u64* out) {
    const u64 begin = global_timer();
    u64 before = begin, smallest = ~0ull;
    for (int steps = 0; steps < 16;) {
        const u64 now = global_timer();
        if (now == before)
            continue;
        smallest = min(smallest, now - before);
        before = now;
        steps++;
    }
    out[0] = begin;
    out[1] = smallest;
    __threadfence_system();
    out[2] = global_timer();
}

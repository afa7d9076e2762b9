// Lets its stream wait for as long as a slot says: the treatment of causal profiling
// (Coz, Curtsinger and Berger, SOSP 2015).
//
// The slot is read when the node runs, so that one captured graph serves every delay, zero included. It waits for the
// preceding kernel first and starts no dependent early: the kernel behind it begins its prologue after the delay.
//
// Launch: one thread. Arguments: slot (two words: nanoseconds to wait, nanoseconds waited so far).
#define TRACE 1
#include "prelude.cuh"
#undef wait_on_dependency

KERNEL delay(volatile u64* slot) {
    wait_on_dependency();
    const u64 requested = slot[0];
    if (requested == 0)
        return;
    const u64 begin = global_timer();
    u64 spent = 0;
    while (spent < requested)
        spent = global_timer() - begin;
    slot[1] += spent;
}

// Hopper only (compute capability 9.0a): mbarriers, TMA loads and warpgroup matrix multiply-accumulate (wgmma).
#pragma once
#include "prelude.cuh"

// --- mbarriers ---

DEVICE void mbarrier_init(u32 barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
DEVICE void mbarrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Makes initialized barriers visible to the async proxy.
DEVICE void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// Arrives, and adds so many bytes of TMA loads to what the barrier's phase waits for.
DEVICE void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
DEVICE void mbarrier_wait(u32 barrier, u32 phase) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(barrier),
                 "r"(phase)
                 : "memory");
}
// Makes this thread's writes to shared memory visible to the async proxy: wgmma and TMA.
DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Registers of a thread from here on, for all threads of a warpgroup: given back, or waited for.
template <int COUNT> DEVICE void decrease_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}
template <int COUNT> DEVICE void increase_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// Waits for the first threads of a CTA, so many, at one of its barriers 1 to 15.
DEVICE void named_barrier_sync(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// A stage of a circular buffer in shared memory, and the phase parity of its mbarrier.
template <int COUNT> struct PipelineState {
    int index = 0;
    u32 phase = 0;
    DEVICE void advance() {
        if (++index == COUNT) {
            index = 0;
            phase ^= 1;
        }
    }
};

// Transposes the words of a quad of lanes as a 4 x 4 matrix: lane t gets word t of each.
DEVICE void transpose_quad(u32 (&words)[4], int t) {
#pragma unroll
    for (int bit = 1; bit < 4; bit *= 2) {
        const bool upper = t & bit;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & bit)
                continue;
            const u32 got = __shfl_xor_sync(~0u, upper ? words[i] : words[i | bit], bit);
            words[i] = upper ? got : words[i];
            words[i | bit] = upper ? words[i | bit] : got;
        }
    }
}

// --- TMA ---

// A tensor map as cuTensorMapEncodeTiled writes it; kernels take it by value, as a __grid_constant__.
struct alignas(64) TensorMap {
    u64 words[16];
};
// Issues the load of the box at these coordinates, innermost first; the barrier counts its bytes on arrival.
DEVICE void tma_load(u32 to, const TensorMap& map, u32 barrier, int column, int second, int third) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(column), "r"(second), "r"(third)
                 : "memory");
}
DEVICE void tma_load(u32 to, const TensorMap& map, u32 barrier, int column, int second, int third, int fourth) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(column), "r"(second), "r"(third), "r"(fourth)
                 : "memory");
}

// Issues the copy of contiguous bytes, a multiple of 16 as are both addresses; the barrier counts them on arrival.
DEVICE void bulk_load(u32 to, const void* from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// --- warpgroup tensor cores (wgmma) ---

DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// The matrix descriptor of a tile in shared memory with the 128-byte swizzle: rows of 128 bytes, 8 rows (1024 bytes) a
// swizzle atom. `leading` is the leading-dimension byte offset: from one block of 64 columns to the next where the
// operand is transposed (MN-major).
DEVICE u64 smem_descriptor(u32 address, u32 leading) {
    return u64((address & 0x3ffff) >> 4) | u64(leading >> 4) << 16 | u64(1024 >> 4) << 32 | u64(1) << 62;
}

#define ACCUMULATORS_8(c, i)                                                                                          \
    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]),       \
        "+f"(c[i + 7])
#define ACCUMULATORS_32(c, i)                                                                                         \
    ACCUMULATORS_8(c, i), ACCUMULATORS_8(c, i + 8), ACCUMULATORS_8(c, i + 16), ACCUMULATORS_8(c, i + 24)
#define OPERANDS_32                                                                                                   \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "  \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define OPERANDS_64                                                                                                   \
    OPERANDS_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "   \
                "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

#define DEFINE_WGMMA(TYPE, NAME)                                                                                      \
    /* SS: c (64 x 128 or 64) = or += a b^T, both operands in shared memory, k = 16. */                               \
    DEVICE void wgmma_ss(float (&c)[64], u64 a, u64 b, int add, TYPE) {                                               \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                                     \
                     "wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME " {" OPERANDS_64                    \
                     "}, %64, %65, p, 1, 1, 0, 0;\n}"                                                                 \
                     : ACCUMULATORS_32(c, 0), ACCUMULATORS_32(c, 32)                                                  \
                     : "l"(a), "l"(b), "r"(add));                                                                     \
    }                                                                                                                 \
    DEVICE void wgmma_ss(float (&c)[32], u64 a, u64 b, int add, TYPE) {                                               \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                                     \
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32." NAME "." NAME " {" OPERANDS_32                      \
                     "}, %32, %33, p, 1, 1, 0, 0;\n}"                                                                 \
                     : ACCUMULATORS_32(c, 0)                                                                          \
                     : "l"(a), "l"(b), "r"(add));                                                                     \
    }                                                                                                                 \
    /* RS: c (64 x 128) = or += a b^T, a in registers, b in shared memory. */                                          \
    DEVICE void wgmma_rs(float (&c)[64], const u32 (&a)[4], u64 b, int add, TYPE) {                                   \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"                                                     \
                     "wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME " {" OPERANDS_64                    \
                     "}, {%64, %65, %66, %67}, %68, p, 1, 1, 0;\n}"                                                   \
                     : ACCUMULATORS_32(c, 0), ACCUMULATORS_32(c, 32)                                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                                 \
    }                                                                                                                 \
    /* RS: c (64 x 128 or 64) += a b, a in registers, b MN-major in shared memory. */                                 \
    DEVICE void wgmma_rs(float (&c)[64], const u32 (&a)[4], u64 b, TYPE) {                                            \
        asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME " {" OPERANDS_64                    \
                     "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"                                                      \
                     : ACCUMULATORS_32(c, 0), ACCUMULATORS_32(c, 32)                                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                           \
    }                                                                                                                 \
    DEVICE void wgmma_rs(float (&c)[32], const u32 (&a)[4], u64 b, TYPE) {                                            \
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." NAME "." NAME " {" OPERANDS_32                     \
                     "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"                                                      \
                     : ACCUMULATORS_32(c, 0)                                                                          \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                           \
    }
DEFINE_WGMMA(bf16, "bf16")
DEFINE_WGMMA(fp16, "f16")

// What only compute capability 9.0a has: barriers that count bytes, copies by tensor map, products of warpgroups.
#pragma once
#include "prelude.cuh"

// --- barriers in shared memory ---

DEVICE void set_up_barrier(u32 barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
DEVICE void arrive(u32 barrier) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory"); }
// Arrives, and has the barrier wait for so many bytes besides.
DEVICE void arrive_expecting(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
DEVICE void wait(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}
// Makes what this thread wrote to shared memory visible to the matrix unit and the copy engine.
DEVICE void show_to_matrix_unit() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A place of a ring in shared memory, and whether the ring was gone around an odd number of times.
template <int PLACES> struct Ring {
    int place = 0;
    u32 parity = 0;
    DEVICE void step() {
        if (++place == PLACES) {
            place = 0;
            parity ^= 1;
        }
    }
};

// --- copies by tensor map ---

// As the driver encodes it; a kernel takes it by value.
struct alignas(64) TensorMap {
    u64 words[16];
};
// Copies the box at these coordinates, innermost first; its bytes count at the barrier when they are there.
DEVICE void copy_box(u32 to, const TensorMap& map, u32 barrier, int column, int second, int third) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(column), "r"(second), "r"(third)
                 : "memory");
}
DEVICE void copy_box(u32 to, const TensorMap& map, u32 barrier, int column, int second, int third, int fourth) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(column), "r"(second), "r"(third), "r"(fourth)
                 : "memory");
}

// --- products of warpgroups ---

DEVICE void start_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> DEVICE void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// Rows of 128 bytes in turns of 8, their 16-byte chunks exchanged by the row's number: what the matrix unit reads
// without conflicts. `leading` is the distance of blocks of 64 columns where columns are outermost.
DEVICE u64 describe(u32 address, u32 leading) {
    return u64((address & 0x3ffff) >> 4) | u64(leading >> 4) << 16 | u64(1024 >> 4) << 32 | u64(1) << 62;
}

#define REGISTERS_8(c, i)                                                                                            \
    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]),     \
        "+f"(c[i + 7])
#define REGISTERS_32(c, i) REGISTERS_8(c, i), REGISTERS_8(c, i + 8), REGISTERS_8(c, i + 16), REGISTERS_8(c, i + 24)
#define NAMES_32                                                                                                     \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64                                                                                                     \
    NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, " \
             "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

#define PRODUCTS(TYPE, NAME)                                                                                         \
    /* c (64 x 128) = or += a b^T, both in shared memory, 16 numbers deep. */                                        \
    DEVICE void multiply_scores(float (&c)[64], u64 a, u64 b, int add, TYPE) {                                       \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                                    \
                     "wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME " {" NAMES_64                      \
                     "}, %64, %65, p, 1, 1, 0, 0;\n}"                                                                \
                     : REGISTERS_32(c, 0), REGISTERS_32(c, 32)                                                       \
                     : "l"(a), "l"(b), "r"(add));                                                                    \
    }                                                                                                                \
    /* c (64 x HEAD) += a b, a in registers, b in shared memory with its columns in rows. */                         \
    DEVICE void multiply_values(float (&c)[64], const u32 (&a)[4], u64 b, TYPE) {                                    \
        asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." NAME "." NAME " {" NAMES_64                      \
                     "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"                                                     \
                     : REGISTERS_32(c, 0), REGISTERS_32(c, 32)                                                       \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                          \
    }                                                                                                                \
    DEVICE void multiply_values(float (&c)[32], const u32 (&a)[4], u64 b, TYPE) {                                    \
        asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." NAME "." NAME " {" NAMES_32                       \
                     "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"                                                     \
                     : REGISTERS_32(c, 0)                                                                            \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                          \
    }
PRODUCTS(bf16, "bf16")
PRODUCTS(fp16, "f16")

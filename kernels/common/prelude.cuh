// What every kernel shares: 16-bit floats, 16-byte accesses, programmatic dependent launch, deterministic reductions,
// tensor cores (mma.sync, ldmatrix) and cp.async. NVRTC ships no headers, so this file includes none.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef long long i64;

#define DEVICE __device__ __forceinline__
#define KERNEL extern "C" __global__ void

struct bf16 {
    u16 bits;
};
struct fp16 {
    u16 bits;
};

constexpr float LOG2_E = 1.44269504088896340736f;
#define MINUS_INFINITY __int_as_float(0xff800000)

__device__ constexpr int ceil_divide(int a, int b) { return (a + b - 1) / b; }
__device__ constexpr int round_up(int a, int b) { return ceil_divide(a, b) * b; }

// --- 16-bit floats: conversion, and packing of two in a word, the lower half first ---

DEVICE float to_float(float v) { return v; }
DEVICE float to_float(bf16 v) { return __uint_as_float(u32(v.bits) << 16); }
DEVICE float to_float(fp16 v) {
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(v.bits));
    return out;
}

template <class T> DEVICE T from_float(float v);
template <> DEVICE float from_float<float>(float v) { return v; }
template <> DEVICE bf16 from_float<bf16>(float v) {
    bf16 out;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(v));
    return out;
}
template <> DEVICE fp16 from_float<fp16>(float v) {
    fp16 out;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(v));
    return out;
}

template <class T> DEVICE u32 pack(float low, float high);
template <> DEVICE u32 pack<bf16>(float low, float high) {
    u32 out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}
template <> DEVICE u32 pack<fp16>(float low, float high) {
    u32 out;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}

template <class T> DEVICE float2 unpack(u32 word);
template <> DEVICE float2 unpack<bf16>(u32 word) {
    return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}
template <> DEVICE float2 unpack<fp16>(u32 word) {
    return make_float2(to_float(fp16{u16(word)}), to_float(fp16{u16(word >> 16)}));
}

// Byte i of a word as a signed number: a permutation that replicates its sign.
DEVICE int signed_byte(u32 word, int i) {
    int out;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(out) : "r"(word), "r"(0x8880 + 0x1111 * i));
    return out;
}

// sum + the dot product of four unsigned and four signed bytes (dp4a).
DEVICE int dot_bytes(u32 unsigned_bytes, u32 signed_bytes, int sum) {
    int out;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(unsigned_bytes), "r"(signed_bytes), "r"(sum));
    return out;
}

// Of two fp16 in a word.
DEVICE u32 multiply_fp16(u32 a, u32 b) {
    u32 out;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}
DEVICE u32 add_fp16(u32 a, u32 b) {
    u32 out;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}

// --- loads and stores ---

DEVICE u32 word(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// Eight 16-bit floats as another type.
template <class From, class To> DEVICE uint4 convert_words(const uint4& v) {
    u32 words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 pair = unpack<From>(word(v, i));
        words[i] = pack<To>(pair.x, pair.y);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

DEVICE uint4 zero16() { return make_uint4(0, 0, 0, 0); }
DEVICE uint4 load16(const void* p) { return *static_cast<const uint4*>(p); }
DEVICE void store16(void* p, uint4 v) { *static_cast<uint4*>(p) = v; }

// The type of one memory access of so many bytes.
template <int BYTES> struct AccessType;
template <> struct AccessType<16> {
    typedef uint4 Type;
};
template <> struct AccessType<8> {
    typedef u64 Type;
};
template <> struct AccessType<4> {
    typedef u32 Type;
};
template <> struct AccessType<2> {
    typedef u16 Type;
};
template <> struct AccessType<1> {
    typedef u8 Type;
};

// A load that bypasses L1, for weights: data that this kernel reads once and that no kernel writes. ptxas may hoist a
// non-coherent load above griddepcontrol.wait, so it must not read what the preceding kernel of the stream writes.
DEVICE uint4 load16_read_only(const void* p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

// The same, and zeros where not valid: a predicated load, never a branch around one.
DEVICE uint4 load16_read_only(const void* p, bool valid) {
    uint4 v;
    asm volatile("{\n.reg .pred valid;\nsetp.ne.b32 valid, %5, 0;\n"
                 "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
                 "@valid ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(p), "r"(int(valid)));
    return v;
}

// A coherent load that bypasses L1, for data that this kernel reads once and the preceding kernel may have written.
DEVICE uint4 load16_streaming(const void* p) {
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

// The same, and zeros where not valid: a predicated load, never a branch around one.
DEVICE uint4 load16_streaming(const void* p, bool valid) {
    uint4 v;
    asm volatile("{\n.reg .pred valid;\nsetp.ne.b32 valid, %5, 0;\n"
                 "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
                 "@valid ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(p), "r"(int(valid))
                 : "memory");
    return v;
}

// The same of a line that is read whole: L2 fetches its 128 bytes at once, though 64 are asked for.
DEVICE uint4 load16_of_line(const void* p, bool valid) {
    uint4 v;
    asm volatile("{\n.reg .pred valid;\nsetp.ne.b32 valid, %5, 0;\n"
                 "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
                 "@valid ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(p), "r"(int(valid))
                 : "memory");
    return v;
}

// load16_streaming for 8 bytes.
DEVICE uint2 load8_streaming(const void* p, bool valid) {
    uint2 v;
    asm volatile("{\n.reg .pred valid;\nsetp.ne.b32 valid, %3, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\n"
                 "@valid ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];\n}"
                 : "=&r"(v.x), "=&r"(v.y)
                 : "l"(p), "r"(int(valid))
                 : "memory");
    return v;
}

// Prefetches the 128-byte line around an address into L2, asynchronously.
DEVICE void prefetch_l2(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// --- programmatic dependent launch (griddepcontrol): a kernel's prologue overlaps the preceding kernel's tail ---

// Allows the dependent kernel to launch. It sees this kernel's writes only after its own wait_on_dependency().
DEVICE void launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Waits until the preceding kernel has completed. Every kernel calls this before it touches memory that another kernel
// reads or writes.
DEVICE void wait_on_dependency() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// --- tracing: when a launch ran, by the GPU's global timer. TRACE is 0 (off), 1 (starts) or 2 (starts and ends) ---

#ifndef TRACE
#define TRACE 0
#endif
#if TRACE
DEVICE u64 global_timer() {
    u64 nanoseconds;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(nanoseconds)::"memory");
    return nanoseconds;
}
// A slot is two words: the start, stored by one thread after the wait, and the latest end of all CTAs.
DEVICE void wait_and_stamp(u64* slot) {
    wait_on_dependency();
    if (threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0)
        *slot = global_timer();
}
// Stamps the end when the thread of this number leaves the kernel, by whichever return. Fire and forget: the thread
// does not wait for the reduction.
struct TraceSpan {
    u64* slot;
    u32 thread;
    DEVICE ~TraceSpan() {
        if (TRACE > 1 && threadIdx.x == thread)
            asm volatile("red.relaxed.gpu.global.max.u64 [%0], %1;" ::"l"(slot + 1), "l"(global_timer()) : "memory");
    }
};
#define TRACE_PARAMETER , u64* trace_slot
#define TRACE_SPAN(thread) const TraceSpan trace_span = {trace_slot, u32(thread)}
#define wait_on_dependency() wait_and_stamp(trace_slot)
#else
#define TRACE_PARAMETER
#define TRACE_SPAN(thread)
#endif

// --- reductions: in a fixed order, so that equal inputs give equal bits ---

struct Sum {
    DEVICE static float combine(float a, float b) { return a + b; }
    DEVICE static float identity() { return 0.0f; }
};
// Propagates NaN, as NumPy does.
struct Maximum {
    DEVICE static float combine(float a, float b) {
        float out;
        asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
        return out;
    }
    DEVICE static float identity() { return MINUS_INFINITY; }
};

template <class Operator> DEVICE float reduce_warp(float v) {
#pragma unroll
    for (int offset = 16; offset; offset >>= 1)
        v = Operator::combine(v, __shfl_xor_sync(~0u, v, offset));
    return v;
}

// Reduces over a CTA of at most 1024 threads; every thread gets the result.
template <class Operator> DEVICE float reduce_cta(float v) {
    __shared__ float warp_results[32];
    v = reduce_warp<Operator>(v);
    const int warps = (blockDim.x + 31) / 32;
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warp_results[threadIdx.x / 32] = v;
    __syncthreads();
    float warp_result = threadIdx.x % 32 < warps ? warp_results[threadIdx.x % 32] : Operator::identity();
    return reduce_warp<Operator>(warp_result);
}

DEVICE float exp2_approx(float v) {
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(v));
    return out;
}
DEVICE float tanh_approx(float v) {
    float out;
    asm("tanh.approx.f32 %0, %1;" : "=f"(out) : "f"(v));
    return out;
}
DEVICE float reciprocal_approx(float v) {
    float out;
    asm("rcp.approx.f32 %0, %1;" : "=f"(out) : "f"(v));
    return out;
}
DEVICE float silu(float v) { return v / (1.0f + __expf(-v)); }

// --- tensor cores (mma.sync) ---

// m16n8k16: c (16 x 8) += a (16 x 16) b (16 x 8). Lane l holds these fragments, with g = l / 4 and t = l % 4:
// a: rows g, g+8, g, g+8; columns 2t, 2t, 2t+8, 2t+8 (and the next); b: rows 2t and 2t+8, column g;
// c: rows g, g, g+8, g+8; columns 2t, 2t+1, 2t, 2t+1.
#define DEFINE_MMA_16X8X16(TYPE, NAME)                                                                                \
    template <>                                                                                                       \
    DEVICE void mma_16x8x16<TYPE>(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {                    \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "        \
            "{%8, %9}, {%0, %1, %2, %3};"                                                                             \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                          \
            : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                                                  \
    }
template <class T> DEVICE void mma_16x8x16(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1);
DEFINE_MMA_16X8X16(bf16, "bf16")
DEFINE_MMA_16X8X16(fp16, "f16")

// m16n8k8 of TF32, floats of ten explicit bits: c (16 x 8) += a (16 x 8) b (8 x 8). a: rows g, g+8, g, g+8; columns t,
// t, t+4, t+4; b: rows t and t+4, column g; c as above.
DEVICE void mma_16x8x8_tf32(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// Rounded to TF32, to nearest with ties away from zero.
DEVICE u32 to_tf32(float v) {
    u32 out;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(v));
    return out;
}

// m16n8k32 of signed bytes: c (16 x 8) += a (16 x 32) b (32 x 8); a word holds 4 consecutive elements.
DEVICE void mma_16x8x32(int (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// m16n8k16 of signed bytes: the first half of the k of the above.
DEVICE void mma_16x8x16_s8(int (&c)[4], u32 a0, u32 a1, u32 b) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a0), "r"(a1), "r"(b));
}

// Transposes an 8 x 8 matrix of 16-bit elements across a warp (lane l: row l / 4, columns 2 (l % 4) and next).
DEVICE u32 transpose_8x8(u32 word) {
    u32 out;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(word));
    return out;
}

// --- shared memory: asynchronous copies (cp.async) and ldmatrix ---

DEVICE u32 shared_address(const void* p) { return u32(__cvta_generic_to_shared(p)); }

DEVICE void cp_async_16(u32 to, const void* from, bool valid) {
    // Where not valid, the copy reads nothing and writes zeros.
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0));
}
DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> DEVICE void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

DEVICE void store16_shared(u32 to, uint4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

DEVICE void store4_shared(u32 to, u32 v) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(v) : "memory"); }
DEVICE u32 load4_shared(u32 from) {
    u32 v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
    return v;
}

DEVICE void ldmatrix_x4(u32 (&out)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address));
}
DEVICE void ldmatrix_x4_trans(u32 (&out)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(address));
}

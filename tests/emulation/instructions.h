// The functions of kernels/ that are inline PTX, as the PTX ISA defines them. They take the place of the definitions of
// the same names, which `host_sources.py` leaves out; a function that is missing here does not compile.
#pragma once

DEVICE float to_float(fp16 v) { return float(emulated_bits<_Float16>(v.bits)); }
template <class T> T from_float(float v);
template <> inline bf16 from_float<bf16>(float v) {
    const u32 bits = __float_as_uint(v);
    return bf16{u16(v != v ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
template <> inline fp16 from_float<fp16>(float v) {
    return fp16{v != v ? u16(0x7fff) : emulated_bits<u16>(_Float16(v))};
}
template <class T> u32 pack(float low, float high);
template <> inline u32 pack<bf16>(float low, float high) {
    return u32(from_float<bf16>(low).bits) | u32(from_float<bf16>(high).bits) << 16;
}
template <> inline u32 pack<fp16>(float low, float high) {
    return u32(from_float<fp16>(low).bits) | u32(from_float<fp16>(high).bits) << 16;
}

DEVICE int signed_byte(u32 word, int i) { return i8(word >> 8 * i); }
DEVICE int dot_bytes(u32 unsigned_bytes, u32 signed_bytes, int sum) {
    for (int i = 0; i < 4; i++)
        sum += int(u8(unsigned_bytes >> 8 * i)) * int(i8(signed_bytes >> 8 * i));
    return sum;
}
template <class Combine> u32 emulated_halves(u32 a, u32 b, Combine combine) {
    u32 out = 0;
    for (int i = 0; i < 2; i++) {
        const float x = to_float(fp16{u16(a >> 16 * i)}), y = to_float(fp16{u16(b >> 16 * i)});
        out |= u32(from_float<fp16>(combine(x, y)).bits) << 16 * i;
    }
    return out;
}
DEVICE u32 multiply_fp16(u32 a, u32 b) {
    return emulated_halves(a, b, [](float x, float y) { return x * y; });
}
DEVICE u32 add_fp16(u32 a, u32 b) {
    return emulated_halves(a, b, [](float x, float y) { return x + y; });
}
DEVICE u32 e4m3_pair(u32 w, int second) {
    u32 out = 0;
    for (int i = 0; i < 2; i++) {
        const u32 byte = w >> 8 * (i + 2 * second) & 255, exponent = byte >> 3 & 15, mantissa = byte & 7;
        const float size = exponent ? ldexpf(float(8 + mantissa), int(exponent) - 10) : ldexpf(float(mantissa), -9);
        const u16 half = (byte & 127) == 127 ? u16(0x7fff) : from_float<fp16>(size).bits;
        out |= u32(half | (byte & 128) << 8) << 16 * i;
    }
    return out;
}
DEVICE u32 to_e4m3_pair(float low, float high) {
    u32 out = 0;
    for (int i = 0; i < 2; i++) {
        const float v = i ? high : low, size = fabsf(v);
        int exponent = 0;
        frexpf(size, &exponent);
        exponent = exponent - 1 < -6 ? -6 : exponent - 1;
        // Below 448 the significand in eighths, with the exponent in steps of 8: a carry goes where it belongs.
        const u32 bits = v != v ? 0x7f : size >= 448.0f ? 0x7e
                       : u32(((exponent + 6) << 3) + int(nearbyintf(ldexpf(size, 3 - exponent))));
        out |= (bits | (signbit(v) ? 0x80u : 0u)) << 8 * i;
    }
    return out;
}
struct Maximum {
    static float combine(float a, float b) { return a != a || b != b ? __int_as_float(0x7fffffff) : a < b ? b : a; }
    static float identity() { return MINUS_INFINITY; }
};
DEVICE float exp2_approx(float v) {
    const float power = exp2f(v);
    return power < 1.17549435e-38f ? 0.0f : power;
}
// With the relative error that the PTX ISA allows.
DEVICE float tanh_approx(float v) { return tanhf(v) * (1.0f - 0x1p-11f); }
// Two units in the last place above, as much as hardware may be.
DEVICE float reciprocal_approx(float v) { return nextafterf(nextafterf(1.0f / v, INFINITY), INFINITY); }

// --- loads ---

DEVICE uint4 load16_read_only(const void* p) { return emulated_aligned(static_cast<const uint4*>(p)); }
DEVICE uint4 load16_read_only(const void* p, bool valid) { return valid ? load16_read_only(p) : uint4{0, 0, 0, 0}; }
DEVICE uint4 load16_streaming(const void* p) { return load16_read_only(p); }
DEVICE uint4 load16_streaming(const void* p, bool valid) { return valid ? load16_read_only(p) : uint4{0, 0, 0, 0}; }
DEVICE uint4 load16_of_line(const void* p, bool valid) { return load16_streaming(p, valid); }
DEVICE uint2 load8_streaming(const void* p, bool valid) {
    return valid ? emulated_aligned(static_cast<const uint2*>(p)) : uint2{0, 0};
}
DEVICE void prefetch_l2(const void*) {}

// --- programmatic dependent launch: the dependency resolves when every thread waits for it or for another ---

DEVICE void launch_dependents() {}
DEVICE void wait_on_dependency() {
    emulated::wait_until([] { return emulated::resolved; });
}

// --- thread block clusters ---

inline void cluster_barrier() {
    emulated::barrier(&emulated::Fiber::cluster_barriers, 0, int(emulated::cta_threads * emulated::cluster_ctas));
}
template <class T> T load_cluster(const T* p, u32 rank) {
    if (rank >= emulated::cluster_ctas)
        emulated::fail("a rank outside of the cluster");
    const u8* shared = int(rank) == emulated::active_cta ? __start_emulated_shared
                                                         : emulated::shared_copies + rank * emulated::shared_size();
    T value;
    memcpy(&value, shared + __cvta_generic_to_shared(p), sizeof value);
    return value;
}
inline void store_cluster(float* p, u32 rank, float v) {
    if (rank >= emulated::cluster_ctas)
        emulated::fail("a rank outside of the cluster");
    u8* shared = int(rank) == emulated::active_cta ? __start_emulated_shared
                                                   : emulated::shared_copies + rank * emulated::shared_size();
    memcpy(shared + __cvta_generic_to_shared(p), &v, sizeof v);
}

// --- tensor cores: operands from all lanes, in the layouts of the PTX ISA ---

template <class T> float emulated_half(u64 word, int i) { return to_float(T{u16(word >> 16 * i)}); }
template <class T> DEVICE void mma_16x8x16(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    const u64 values[6] = {a0, a1, a2, a3, b0, b1};
    const int buffer = emulated::exchange(values, 6), g = emulated_lane() / 4, t = emulated_lane() % 4;
    for (int i = 0; i < 4; i++) {
        const int row = g + i / 2 * 8, column = 2 * t + i % 2;
        double sum = 0.0;
        for (int k = 0; k < 16; k++) {
            const u64* a = emulated::lane_fiber(row % 8 * 4 + k % 8 / 2).values[buffer];
            const u64* b = emulated::lane_fiber(column * 4 + k % 8 / 2).values[buffer];
            sum += double(emulated_half<T>(a[row / 8 + k / 8 * 2], k % 2)) * emulated_half<T>(b[4 + k / 8], k % 2);
        }
        c[i] += float(sum);
    }
}
// Tensor cores ignore the last 13 bits.
inline double emulated_tf32(u64 bits) { return __uint_as_float(u32(bits) & 0xffffe000u); }
DEVICE void mma_16x8x8_tf32(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    const u64 values[6] = {a0, a1, a2, a3, b0, b1};
    const int buffer = emulated::exchange(values, 6), g = emulated_lane() / 4, t = emulated_lane() % 4;
    for (int i = 0; i < 4; i++) {
        const int row = g + i / 2 * 8, column = 2 * t + i % 2;
        double sum = 0.0;
        for (int k = 0; k < 8; k++) {
            const u64* a = emulated::lane_fiber(row % 8 * 4 + k % 4).values[buffer];
            const u64* b = emulated::lane_fiber(column * 4 + k % 4).values[buffer];
            sum += emulated_tf32(a[row / 8 + k / 4 * 2]) * emulated_tf32(b[4 + k / 4]);
        }
        c[i] += float(sum);
    }
}
DEVICE u32 to_tf32(float v) { return v != v ? 0x7fffffffu : (__float_as_uint(v) + 0x1000u) & ~0x1fffu; }
inline void emulated_mma_bytes(int (&c)[4], const u64 (&values)[6], int depth) {
    const int buffer = emulated::exchange(values, 6), g = emulated_lane() / 4, t = emulated_lane() % 4;
    for (int i = 0; i < 4; i++) {
        const int row = g + i / 2 * 8, column = 2 * t + i % 2;
        for (int k = 0; k < depth; k++) {
            const u64* a = emulated::lane_fiber(row % 8 * 4 + k % 16 / 4).values[buffer];
            const u64* b = emulated::lane_fiber(column * 4 + k % 16 / 4).values[buffer];
            c[i] += int(i8(a[row / 8 + k / 16 * 2] >> 8 * (k % 4))) * int(i8(b[4 + k / 16] >> 8 * (k % 4)));
        }
    }
}
DEVICE void mma_16x8x32(int (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    emulated_mma_bytes(c, {a0, a1, a2, a3, b0, b1}, 32);
}
DEVICE void mma_16x8x16_s8(int (&c)[4], u32 a0, u32 a1, u32 b) { emulated_mma_bytes(c, {a0, a1, 0, 0, b, 0}, 16); }
DEVICE u32 transpose_8x8(u32 word) {
    const u64 value = word;
    const int buffer = emulated::exchange(&value, 1), g = emulated_lane() / 4, t = emulated_lane() % 4;
    auto element = [&](int row, int column) {
        return u32(u16(emulated::lane_fiber(row * 4 + column / 2).values[buffer][0] >> 16 * (column % 2)));
    };
    return element(2 * t, g) | element(2 * t + 1, g) << 16;
}

// --- shared memory ---

inline u8* emulated_shared(u32 address) { return __start_emulated_shared + address; }
inline void emulated_copy(const emulated::Copy& copy) {
    if (copy.valid)
        memcpy(copy.to, copy.from, copy.bytes);
    else
        memset(copy.to, 0, copy.bytes);
}
inline void emulated_copy_later(u32 to, const void* from, int bytes, bool valid) {
    if (to % bytes || (valid && uintptr_t(from) % bytes))
        emulated::fail("a misaligned copy");
    emulated::Fiber& own = emulated::self();
    if (own.copy_count == own.copy_capacity) {
        own.copy_capacity = own.copy_capacity * 2 + 16;
        own.copies = static_cast<emulated::Copy*>(realloc(own.copies, own.copy_capacity * sizeof(emulated::Copy)));
    }
    own.copies[own.copy_count++] = {emulated_shared(to), static_cast<const u8*>(from), bytes, valid, own.groups};
    if (emulated::early_copies)
        emulated_copy(own.copies[own.copy_count - 1]);
}
DEVICE void cp_async_16(u32 to, const void* from, bool valid) { emulated_copy_later(to, from, 16, valid); }
DEVICE void cp_async_4(u32 to, const void* from, bool valid) { emulated_copy_later(to, from, 4, valid); }
DEVICE void cp_async_commit() { emulated::self().groups++; }
template <int PENDING> DEVICE void cp_async_wait() {
    emulated::Fiber& own = emulated::self();
    int kept = 0;
    for (int i = 0; i < own.copy_count; i++) {
        const emulated::Copy& copy = own.copies[i];
        if (copy.group >= own.groups - PENDING)
            own.copies[kept++] = copy;
        else if (!emulated::early_copies)
            emulated_copy(copy);
    }
    own.copy_count = kept;
}
DEVICE void store4_shared(u32 to, u32 v) { memcpy(emulated_shared(to), &v, 4); }
DEVICE u32 load4_shared(u32 from) {
    u32 v;
    memcpy(&v, emulated_shared(from), 4);
    return v;
}
DEVICE void store16_shared(u32 to, uint4 v) { memcpy(emulated_shared(to), &v, 16); }
inline void emulated_ldmatrix(u32 (&out)[4], u32 address, bool transposed) {
    const u64 value = address;
    const int buffer = emulated::exchange(&value, 1), g = emulated_lane() / 4, t = emulated_lane() % 4;
    for (int m = 0; m < 4; m++) {
        auto element = [&](int row, int column) {
            u16 v;
            memcpy(&v, emulated_shared(u32(emulated::lane_fiber(m * 8 + row).values[buffer][0])) + column * 2, 2);
            return u32(v);
        };
        out[m] = transposed ? element(2 * t, g) | element(2 * t + 1, g) << 16
                            : element(g, 2 * t) | element(g, 2 * t + 1) << 16;
    }
}
DEVICE void ldmatrix_x4(u32 (&out)[4], u32 address) { emulated_ldmatrix(out, address, false); }
DEVICE void ldmatrix_x4_trans(u32 (&out)[4], u32 address) { emulated_ldmatrix(out, address, true); }

// --- mbarriers and bulk copies ---

// The word of an mbarrier in shared memory.
struct EmulatedMbarrier {
    u64 phase : 1, arrivals : 12, pending : 12, bytes : 39;
};
static_assert(sizeof(EmulatedMbarrier) == 8, "");
struct EmulatedBulkCopy {
    u8* to;
    const u8* from;
    u32 bytes, barrier;
    int cta;
};
static EmulatedBulkCopy* emulated_bulk_copies;
static int emulated_bulk_count, emulated_bulk_capacity;

inline EmulatedMbarrier& emulated_mbarrier(u32 barrier) {
    if (barrier % 8)
        emulated::fail("a misaligned mbarrier");
    return *reinterpret_cast<EmulatedMbarrier*>(emulated_shared(barrier));
}
inline void emulated_complete(EmulatedMbarrier& barrier) {
    emulated::progress++;
    if (barrier.pending || barrier.bytes)
        return;
    barrier.phase ^= 1;
    barrier.pending = barrier.arrivals;
}
inline void emulated_arrive(u32 barrier, u32 bytes) {
    EmulatedMbarrier& own = emulated_mbarrier(barrier);
    if (!own.pending)
        emulated::fail("more arrivals than an mbarrier expects");
    own.bytes += bytes;
    own.pending--;
    emulated_complete(own);
}
DEVICE void mbarrier_init(u32 barrier, int arrivals) {
    emulated_mbarrier(barrier) = {0, u64(arrivals), u64(arrivals), 0};
}
DEVICE void mbarrier_arrive(u32 barrier) { emulated_arrive(barrier, 0); }
DEVICE void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) { emulated_arrive(barrier, bytes); }
DEVICE void fence_proxy_async() {}
DEVICE void fence_mbarrier_init() {}
inline void emulated_bulk_copy(int i) {
    const EmulatedBulkCopy copy = emulated_bulk_copies[i];
    emulated_bulk_copies[i] = emulated_bulk_copies[--emulated_bulk_count];
    memcpy(copy.to, copy.from, copy.bytes);
    EmulatedMbarrier& barrier = emulated_mbarrier(copy.barrier);
    barrier.bytes -= copy.bytes;
    emulated_complete(barrier);
}
// Copies that are not early happen when a thread waits for their barrier.
DEVICE void mbarrier_wait(u32 barrier, u32 phase) {
    emulated::wait_until([=] {
        for (int i = emulated_bulk_count - 1; i >= 0; i--)
            if (emulated_bulk_copies[i].barrier == barrier && emulated_bulk_copies[i].cta == emulated::active_cta)
                emulated_bulk_copy(i);
        return emulated_mbarrier(barrier).phase != phase;
    });
}
DEVICE void bulk_load(u32 to, const void* from, u32 bytes, u32 barrier) {
    if (to % 16 || uintptr_t(from) % 16 || bytes % 16)
        emulated::fail("a misaligned bulk copy");
    if (emulated_bulk_count == emulated_bulk_capacity) {
        emulated_bulk_capacity = emulated_bulk_capacity * 2 + 64;
        emulated_bulk_copies = static_cast<EmulatedBulkCopy*>(
            realloc(emulated_bulk_copies, emulated_bulk_capacity * sizeof(EmulatedBulkCopy)));
    }
    emulated_bulk_copies[emulated_bulk_count++] = {emulated_shared(to), static_cast<const u8*>(from), bytes, barrier,
                                                   emulated::active_cta};
    if (emulated::early_copies)
        emulated_bulk_copy(emulated_bulk_count - 1);
}
template <int COUNT> DEVICE void decrease_registers() {}
template <int COUNT> DEVICE void increase_registers() {}
DEVICE void named_barrier_sync(int, int threads) {
    const int first = emulated::current / int(blockDim.x) * int(blockDim.x);
    emulated::barrier(&emulated::Fiber::named_barriers, first, first + threads);
}

// --- warpgroup tensor cores ---

// Products read shared memory at once where copies are late, and as late as their wait allows where copies are early:
// either mistake shows in one of them.

struct EmulatedProduct {
    float* sums;
    u64 a, b;
    int add, columns, group, fiber;
    float (*value)(const u8*);
    bool a_in_registers;
    float rows[2][16];  // of a, of this thread's sums, where it is in registers
};
static EmulatedProduct* emulated_products;
static int emulated_product_count, emulated_product_capacity;

// Element `column` of a row of a K-major operand with the 128-byte swizzle, whose descriptor begins in this slice.
inline const u8* emulated_operand(u64 descriptor, int row, int column) {
    if (descriptor >> 62 != 1 || (descriptor >> 32 & 0x3fff) != 1024 >> 4)
        emulated::fail("a matrix descriptor without the 128-byte swizzle");
    const u32 at = u32(descriptor & 0x3fff) * 16 + row / 8 * 1024 + row % 8 * 128 + column * 2;
    return emulated_shared(at ^ (at >> 7 & 7) << 4);
}
template <class T> float emulated_value(const u8* at) {
    T value;
    memcpy(&value, at, sizeof value);
    return to_float(value);
}
inline void emulated_multiply(const EmulatedProduct& own) {
    const int g = emulated_lane() / 4, t = emulated_lane() % 4, first = threadIdx.x / 32 % 4 * 16;
    for (int i = 0; i < own.columns / 2; i++) {
        const int row = first + i / 2 % 2 * 8 + g, column = i / 4 * 8 + t * 2 + i % 2;
        double sum = own.add ? own.sums[i] : 0.0;
        for (int k = 0; k < 16; k++) {
            const float a = own.a_in_registers ? own.rows[i / 2 % 2][k] : own.value(emulated_operand(own.a, row, k));
            sum += double(a) * own.value(emulated_operand(own.b, column, k));
        }
        own.sums[i] = float(sum);
    }
}
inline int& emulated_product_group() {
    static int groups[2048];
    return groups[emulated::current];
}
inline void emulated_issue(const EmulatedProduct& own) {
    if (!emulated::early_copies) {
        emulated_multiply(own);
        return;
    }
    if (emulated_product_count == emulated_product_capacity) {
        emulated_product_capacity = emulated_product_capacity * 2 + 4096;
        emulated_products = static_cast<EmulatedProduct*>(
            realloc(emulated_products, emulated_product_capacity * sizeof(EmulatedProduct)));
    }
    emulated_products[emulated_product_count++] = own;
}
template <class T, int SUMS> void wgmma_ss(float (&c)[SUMS], u64 a, u64 b, int add, T) {
    emulated_issue({c, a, b, add, 2 * SUMS, emulated_product_group(), emulated::current, emulated_value<T>});
}
template <class T, int SUMS> void wgmma_rs(float (&c)[SUMS], const u32 (&a)[4], u64 b, int add, T) {
    EmulatedProduct own = {c, 0, b, add, 2 * SUMS, emulated_product_group(), emulated::current, emulated_value<T>};
    own.a_in_registers = true;
    const u64 values[4] = {a[0], a[1], a[2], a[3]};
    const int buffer = emulated::exchange(values, 4);
    for (int i = 0; i < 32; i++) {
        const int half = i / 16, k = i % 16;
        const u64* from = emulated::lane_fiber(emulated_lane() / 4 * 4 + k % 8 / 2).values[buffer];
        own.rows[half][k] = emulated_half<T>(from[half + k / 8 * 2], k % 2);
    }
    emulated_issue(own);
}
DEVICE void wgmma_fence() {}
DEVICE void wgmma_commit() { emulated_product_group()++; }
template <int PENDING> DEVICE void wgmma_wait() {
    int kept = 0;
    for (int i = 0; i < emulated_product_count; i++) {
        const EmulatedProduct own = emulated_products[i];
        if (own.fiber != emulated::current || own.group >= emulated_product_group() - PENDING)
            emulated_products[kept++] = own;
        else
            emulated_multiply(own);
    }
    emulated_product_count = kept;
}

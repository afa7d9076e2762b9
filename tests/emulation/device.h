// The CUDA language on a host: threads are fibers of one OS thread, CTAs run one after another, the CTAs of a cluster
// in turns. A fiber runs until it waits for others, at a shuffle, a tensor core instruction or a barrier; so what is not
// synchronized shows in another order of the fibers (see `Launch`).
#pragma once
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <ucontext.h>

#define __device__
#define __global__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __CUDA_ARCH__ 900
// A section of its own, so that the linker tells where shared memory begins and ends.
#define __shared__ static __attribute__((section("emulated_shared")))

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

struct Index {
    unsigned x, y, z;
};
static Index threadIdx, blockIdx, blockDim, gridDim;

extern "C" unsigned char __start_emulated_shared[] __attribute__((visibility("hidden")));
extern "C" unsigned char __stop_emulated_shared[] __attribute__((visibility("hidden")));

typedef unsigned long long Value;

namespace emulated {

constexpr int MAX_DYNAMIC = 232448, STACK = 1 << 17, MAX_VALUES = 8;
__shared__ unsigned char dynamic_shared[MAX_DYNAMIC] __attribute__((aligned(1024), used));
// So that what follows and is aligned to 4 bytes is aligned to no more.
__shared__ unsigned misalignment __attribute__((used));

// What a launch has besides its grid: the ways in which hardware may differ from run to run.
struct Launch {
    unsigned grid[3], threads, shared_bytes, cluster;
    int backward;       // threads run from the last to the first
    int alternating;    // so do those of every other CTA, or they do not where the others do
    int early_copies;   // cp.async copies at once; else as late as its wait allows
    unsigned late;      // buffers that the preceding kernel writes: poison until the dependency resolves
    unsigned char* const* late_data;
    const Value* late_bytes;
};

struct Copy {
    unsigned char* to;
    const unsigned char* from;
    int bytes;
    bool valid;
    int group;
};

struct Fiber {
    ucontext_t context;
    jmp_buf at;
    unsigned char* stack;
    bool started, done;
    int exchanges, barriers, cluster_barriers, named_barriers, vote;
    Value values[2][MAX_VALUES];  // of the last two exchanges
    Copy* copies;
    int copy_count, copy_capacity, groups;
};

static Fiber* fibers;  // of all CTAs of a cluster
static unsigned char* shared_copies;
static int current, active_cta;
static unsigned cta_threads, cluster_ctas;
static Value progress;
static bool resolved, early_copies;
static jmp_buf scheduler;
static char message[256];
static void (*body)();

inline Fiber& self() { return fibers[current]; }
inline size_t shared_size() { return size_t(__stop_emulated_shared - __start_emulated_shared); }

// Returns to the scheduler until it is this fiber's turn again.
inline void yield() {
    const int fiber = current;
    if (_setjmp(fibers[fiber].at) == 0)
        _longjmp(scheduler, 1);
}

[[noreturn]] inline void fail(const char* what) {
    snprintf(message, sizeof message, "%s (CTA %u %u %u, thread %u)", what, blockIdx.x, blockIdx.y, blockIdx.z,
             threadIdx.x);
    _longjmp(scheduler, 2);
}

// What code compiled with -fsanitize=alignment calls where an address is not aligned for the type of an access.
extern "C" __attribute__((used, visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(void*, uintptr_t) {
    fail("a misaligned access");
}

template <class Condition> inline void wait_until(Condition condition) {
    while (!condition())
        yield();
    progress++;
}

// Gives values to all lanes of the warp; returns where they are: lane l's are at fiber_of(l).values[the result].
inline Fiber& lane_fiber(int lane) { return fibers[current / 32 * 32 + lane]; }
inline int exchange(const Value* values, int count, unsigned mask = ~0u) {
    if (mask != ~0u)
        fail("a warp operation of some lanes is not emulated");
    Fiber& own = self();
    const int call = ++own.exchanges, buffer = call & 1;
    for (int i = 0; i < count; i++)
        own.values[buffer][i] = values[i];
    wait_until([=] {
        for (int lane = 0; lane < 32; lane++)
            if (!lane_fiber(lane).done && lane_fiber(lane).exchanges < call)
                return false;
        return true;
    });
    return buffer;
}

// Waits until all threads between two fibers have called it as often.
inline void barrier(int Fiber::* count, int first, int last) {
    const int call = ++(self().*count);
    wait_until([=] {
        for (int i = first; i < last; i++)
            if (!fibers[i].done && fibers[i].*count < call)
                return false;
        return true;
    });
}

// --- the scheduler ---

inline void entry() {
    body();
    self().done = true;
    progress++;
    _longjmp(scheduler, 1);
}

inline void activate(unsigned cta) {
    if (cluster_ctas > 1 && int(cta) != active_cta) {
        memcpy(shared_copies + active_cta * shared_size(), __start_emulated_shared, shared_size());
        memcpy(__start_emulated_shared, shared_copies + cta * shared_size(), shared_size());
    }
    active_cta = int(cta);
}

// Runs a fiber until it yields; returns false where the kernel failed.
inline bool run(int fiber) {
    current = fiber;
    threadIdx = {unsigned(fiber) % cta_threads, 0, 0};
    const int back = _setjmp(scheduler);
    if (back)
        return back == 1;
    if (fibers[fiber].started)
        _longjmp(fibers[fiber].at, 1);
    Fiber& f = fibers[fiber];
    f.started = true;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack;
    f.context.uc_stack.ss_size = STACK;
    f.context.uc_link = nullptr;
    makecontext(&f.context, entry, 0);
    setcontext(&f.context);
    return false;
}

inline bool run_cluster(const Launch& launch, unsigned first_x, unsigned y, unsigned z, unsigned char* saved) {
    // Shared memory begins as anything: as NaN here.
    memset(__start_emulated_shared, 0xff, shared_size());
    for (unsigned cta = 0; cta < cluster_ctas; cta++)
        memset(shared_copies + cta * shared_size(), 0xff, shared_size());
    active_cta = 0;
    const int threads = int(cta_threads * cluster_ctas);
    for (int i = 0; i < threads; i++) {
        Fiber& f = fibers[i];
        f.started = f.done = false;
        f.exchanges = f.barriers = f.cluster_barriers = f.named_barriers = f.vote = f.copy_count = f.groups = 0;
    }
    const bool backward = (launch.backward != 0) != (launch.alternating && first_x / cluster_ctas % 2);
    resolved = launch.late == 0;
    unsigned char* at = saved;
    for (unsigned i = 0; i < launch.late; at += launch.late_bytes[i++]) {
        memcpy(at, launch.late_data[i], launch.late_bytes[i]);
        memset(launch.late_data[i], 0xff, launch.late_bytes[i]);
    }
    for (;;) {
        const Value before = progress;
        int left = 0;
        for (unsigned c = 0; c < cluster_ctas; c++) {
            const unsigned cta = backward ? cluster_ctas - 1 - c : c;
            activate(cta);
            blockIdx = {first_x + cta, y, z};
            for (unsigned t = 0; t < cta_threads; t++) {
                const unsigned fiber = cta * cta_threads + (backward ? cta_threads - 1 - t : t);
                if (fibers[fiber].done)
                    continue;
                left++;
                if (!run(int(fiber)))
                    return false;
            }
        }
        if (left == 0)
            break;
        if (progress != before)
            continue;
        if (resolved) {
            snprintf(message, sizeof message, "deadlock: %d threads wait (CTA %u %u %u)", left, first_x, y, z);
            return false;
        }
        resolved = true;
        at = saved;
        for (unsigned i = 0; i < launch.late; at += launch.late_bytes[i++])
            memcpy(launch.late_data[i], at, launch.late_bytes[i]);
    }
    if (!resolved) {
        // No thread waited: what was read before is poison, and what follows needs the data.
        at = saved;
        for (unsigned i = 0; i < launch.late; at += launch.late_bytes[i++])
            memcpy(launch.late_data[i], at, launch.late_bytes[i]);
    }
    return true;
}

inline bool run_grid(const Launch& launch) {
    cta_threads = launch.threads;
    cluster_ctas = launch.cluster;
    early_copies = launch.early_copies;
    gridDim = {launch.grid[0], launch.grid[1], launch.grid[2]};
    blockDim = {launch.threads, 1, 1};
    message[0] = 0;
    const size_t count = size_t(cta_threads) * cluster_ctas;
    fibers = static_cast<Fiber*>(calloc(count, sizeof(Fiber)));
    unsigned char* stacks = static_cast<unsigned char*>(malloc(count * STACK));
    shared_copies = static_cast<unsigned char*>(malloc(cluster_ctas * shared_size()));
    Value late = 0;
    for (unsigned i = 0; i < launch.late; i++)
        late += launch.late_bytes[i];
    unsigned char* saved = static_cast<unsigned char*>(malloc(late + 1));
    for (size_t i = 0; i < count; i++)
        fibers[i].stack = stacks + i * STACK;
    bool good = true;
    for (unsigned z = 0; good && z < launch.grid[2]; z++)
        for (unsigned y = 0; good && y < launch.grid[1]; y++)
            for (unsigned x = 0; good && x < launch.grid[0]; x += cluster_ctas)
                good = run_cluster(launch, x, y, z, saved);
    for (size_t i = 0; i < count; i++)
        free(fibers[i].copies);
    free(fibers);
    free(stacks);
    free(shared_copies);
    free(saved);
    return good;
}

// Calls the kernel with arguments as a driver takes them: an array of pointers to values.
template <class... Arguments> struct Caller {
    static void** values;
    static void (*kernel)(Arguments...);
    template <size_t... I> static void call(std::integer_sequence<size_t, I...>) {
        kernel(*reinterpret_cast<std::remove_const_t<Arguments>*>(values[I])...);
    }
    static void run() { call(std::make_integer_sequence<size_t, sizeof...(Arguments)>()); }
};
template <class... Arguments> void** Caller<Arguments...>::values;
template <class... Arguments> void (*Caller<Arguments...>::kernel)(Arguments...);

template <class... Arguments>
const char* launch_kernel(void (*kernel)(Arguments...), const Launch& launch, void** values, unsigned count) {
    if (count != sizeof...(Arguments)) {
        snprintf(message, sizeof message, "expected %zu arguments, got %u", sizeof...(Arguments), count);
        return message;
    }
    Caller<Arguments...>::values = values;
    Caller<Arguments...>::kernel = kernel;
    body = Caller<Arguments...>::run;
    return run_grid(launch) ? nullptr : message;
}

}  // namespace emulated

// --- the language's functions ---

inline void __syncthreads() {
    const int first = emulated::current / int(blockDim.x) * int(blockDim.x);
    emulated::barrier(&emulated::Fiber::barriers, first, first + int(blockDim.x));
}
inline int __syncthreads_or(int v) {
    emulated::self().vote = v != 0;
    __syncthreads();
    const int first = emulated::current / int(blockDim.x) * int(blockDim.x);
    int any = 0;
    for (int i = first; i < first + int(blockDim.x); i++)
        any |= emulated::fibers[i].vote;
    __syncthreads();
    return any;
}
inline void __syncwarp(unsigned mask = ~0u) { emulated::exchange(nullptr, 0, mask); }
inline void __threadfence() {}

template <class T> inline T emulated_lane_value(int buffer, int lane) {
    T value;
    memcpy(&value, &emulated::lane_fiber(lane).values[buffer][0], sizeof value);
    return value;
}
template <class T> inline T emulated_shuffle(unsigned mask, T value, int lane, bool valid) {
    Value bits = 0;
    static_assert(sizeof value <= sizeof bits, "");
    memcpy(&bits, &value, sizeof value);
    const int buffer = emulated::exchange(&bits, 1, mask);
    return valid ? emulated_lane_value<T>(buffer, lane) : value;
}
inline int emulated_lane() { return emulated::current % 32; }
template <class T> T __shfl_sync(unsigned mask, T v, int lane) { return emulated_shuffle(mask, v, lane & 31, true); }
template <class T> T __shfl_xor_sync(unsigned mask, T v, int bits) {
    return emulated_shuffle(mask, v, emulated_lane() ^ bits, true);
}
template <class T> T __shfl_up_sync(unsigned mask, T v, int delta) {
    const int from = emulated_lane() - delta;
    return emulated_shuffle(mask, v, from & 31, from >= 0);
}
template <class T> T __shfl_down_sync(unsigned mask, T v, int delta) {
    const int from = emulated_lane() + delta;
    return emulated_shuffle(mask, v, from & 31, from < 32);
}
template <class T, class Combine> inline T emulated_reduction(unsigned mask, T v, Combine combine) {
    Value bits = 0;
    memcpy(&bits, &v, sizeof v);
    const int buffer = emulated::exchange(&bits, 1, mask);
    T all = emulated_lane_value<T>(buffer, 0);
    for (int lane = 1; lane < 32; lane++)
        all = combine(all, emulated_lane_value<T>(buffer, lane));
    return all;
}
inline unsigned __ballot_sync(unsigned mask, int v) {
    const unsigned bit = unsigned(v != 0) << emulated_lane();
    return emulated_reduction(mask, bit, [](unsigned a, unsigned b) { return a | b; });
}
inline int __any_sync(unsigned mask, int v) { return __ballot_sync(mask, v) != 0; }
template <class T> T __reduce_max_sync(unsigned mask, T v) {
    return emulated_reduction(mask, v, [](T a, T b) { return a > b ? a : b; });
}
template <class T> T __reduce_min_sync(unsigned mask, T v) {
    return emulated_reduction(mask, v, [](T a, T b) { return a < b ? a : b; });
}

template <class To, class From> inline To emulated_bits(From v) {
    To to;
    static_assert(sizeof to == sizeof v, "");
    memcpy(&to, &v, sizeof to);
    return to;
}
inline float __uint_as_float(unsigned v) { return emulated_bits<float>(v); }
inline unsigned __float_as_uint(float v) { return emulated_bits<unsigned>(v); }
inline float __int_as_float(int v) { return emulated_bits<float>(v); }
inline int __float_as_int(float v) { return emulated_bits<int>(v); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const Value bytes = Value(y) << 32 | x;
    unsigned out = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned choice = selector >> 4 * i & 15, byte = bytes >> 8 * (choice & 7) & 255;
        // The highest bit of a choice replicates the sign of the byte.
        out |= (choice & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
    }
    return out;
}
inline int __float2int_rn(float v) {
    return v != v ? 0 : v >= 2147483648.0f ? 0x7fffffff : v <= -2147483648.0f ? int(0x80000000u) : int(nearbyintf(v));
}
inline float __expf(float v) { return expf(v); }
inline float rsqrtf(float v) { return 1.0f / sqrtf(v); }
inline void sincospif(float v, float* sine, float* cosine) {
    *sine = float(sin(M_PI * double(v)));
    *cosine = float(cos(M_PI * double(v)));
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline int __clz(int v) { return v ? __builtin_clz(unsigned(v)) : 32; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline long long __double_as_longlong(double v) { return emulated_bits<long long>(v); }
inline double __longlong_as_double(long long v) { return emulated_bits<double>(v); }
inline float __double2float_rz(double v) {
    const float nearest = float(v);
    return fabs(double(nearest)) > fabs(v) ? nextafterf(nearest, 0.0f) : nearest;
}
template <class T> T emulated_aligned(const T* p) {
    if (uintptr_t(p) % alignof(T))
        emulated::fail("a misaligned load");
    return *p;
}
template <class T> T __ldg(const T* p) { return emulated_aligned(p); }
template <class T> T __ldcg(const T* p) { return emulated_aligned(p); }
template <class T> void __stcs(T* p, T v) { *p = v; }
template <class T> T atomicAdd(T* p, T v) {
    const T before = *p;
    *p += v;
    return before;
}
inline int atomicAdd(int* p, int v) { return atomicAdd<int>(p, v); }
inline unsigned atomicInc(unsigned* p, unsigned most) {
    const unsigned before = *p;
    *p = before >= most ? 0 : before + 1;
    return before;
}
template <class T> T atomicMax(T* p, T v) {
    const T before = *p;
    *p = before > v ? before : v;
    return before;
}
template <class A, class B> constexpr std::common_type_t<A, B> min(A a, B b) {
    typedef std::common_type_t<A, B> T;
    return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B> constexpr std::common_type_t<A, B> max(A a, B b) {
    typedef std::common_type_t<A, B> T;
    return T(a) < T(b) ? T(b) : T(a);
}
using std::signbit;
inline unsigned __cvta_generic_to_shared(const void* p) {
    const unsigned char* byte = static_cast<const unsigned char*>(p);
    if (byte < __start_emulated_shared || byte >= __stop_emulated_shared)
        emulated::fail("an address outside of shared memory");
    return unsigned(byte - __start_emulated_shared);
}

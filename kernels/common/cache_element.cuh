// Element types of a KV cache besides 16-bit floats: e4m3, and int8 codes with a scale for each token of a head.
//
// Where tokens have scales, those of a head (floats) follow its elements in each block of the cache.
#pragma once
#include "float8.cuh"

struct int8 {
    i8 code;
};

template <class T> struct CacheTraits {
    static constexpr bool QUANTIZED = false;
    static constexpr int SCALE_BYTES = 0;  // of a token of a head
};
template <> struct CacheTraits<e4m3> {
    static constexpr bool QUANTIZED = true;
    static constexpr int SCALE_BYTES = 0;
};
template <> struct CacheTraits<int8> {
    static constexpr bool QUANTIZED = true;
    static constexpr int SCALE_BYTES = 4;
};

// Two of the four elements of a word as fp16, which holds them exactly: 0 and 1, or 2 and 3.
template <class T> DEVICE u32 cache_pair(u32 w, int second);
template <> DEVICE u32 cache_pair<e4m3>(u32 w, int second) { return e4m3_pair(w, second); }
template <> DEVICE u32 cache_pair<int8>(u32 w, int second) {
    // 1024 + code + 128, whose bits are those of the byte below 0x64; then 1152 is taken back.
    return add_fp16(__byte_perm(w ^ 0x80808080u, 0x64646464u, second ? 0x4342 : 0x4140), 0xe480e480u);
}

// Eight elements as fp16.
template <class T> DEVICE uint4 cache_chunk(uint2 w) {
    return make_uint4(cache_pair<T>(w.x, 0), cache_pair<T>(w.x, 1), cache_pair<T>(w.y, 0), cache_pair<T>(w.y, 1));
}

// Vectorized access to global memory: 16 bytes of elements a load or store, converted from and to float.
//
// Row-wise kernels keep a row in the registers of a CTA: chunk c of thread i holds the VECTOR elements from
// (c * THREADS + i) * VECTOR on, so that the accesses of a warp are coalesced.
#pragma once
#include "prelude.cuh"

template <class T, int WIDTH> struct VectorAccess;

template <class T> struct VectorAccess<T, 1> {
    DEVICE static void load(const T* p, float (&v)[1]) { v[0] = to_float(*p); }
    DEVICE static void store(T* p, const float (&v)[1]) { *p = from_float<T>(v[0]); }
};
template <class T> struct VectorAccess<T, 8> {
    DEVICE static void load(const T* p, float (&v)[8]) {
        const uint4 words = load16(p);
        const float2 a = unpack<T>(words.x), b = unpack<T>(words.y), c = unpack<T>(words.z), d = unpack<T>(words.w);
        v[0] = a.x, v[1] = a.y, v[2] = b.x, v[3] = b.y, v[4] = c.x, v[5] = c.y, v[6] = d.x, v[7] = d.y;
    }
    DEVICE static void store(T* p, const float (&v)[8]) {
        store16(p, make_uint4(pack<T>(v[0], v[1]), pack<T>(v[2], v[3]), pack<T>(v[4], v[5]), pack<T>(v[6], v[7])));
    }
};
template <> struct VectorAccess<float, 4> {
    DEVICE static void load(const float* p, float (&v)[4]) {
        const float4 four = *reinterpret_cast<const float4*>(p);
        v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    }
    DEVICE static void store(float* p, const float (&v)[4]) {
        *reinterpret_cast<float4*>(p) = make_float4(v[0], v[1], v[2], v[3]);
    }
};

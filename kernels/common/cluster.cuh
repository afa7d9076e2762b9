// Thread block clusters: the cluster barrier and distributed shared memory (DSMEM).
//
// Options: CLUSTER (0: a CTA is alone, and its own barrier and shared memory serve; any architecture).
#pragma once
#include "prelude.cuh"

DEVICE void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
DEVICE u32 cluster_address(const void* p, u32 rank) {
    u32 address;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(p)), "r"(rank));
    return address;
}
DEVICE float load_cluster(const float* p, u32 rank) {
    float v;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(cluster_address(p, rank)) : "memory");
    return v;
}
DEVICE u64 load_cluster(const u64* p, u32 rank) {
    u64 v;
    asm volatile("ld.shared::cluster.u64 %0, [%1];" : "=l"(v) : "r"(cluster_address(p, rank)) : "memory");
    return v;
}
// Stores to what the CTA of this rank has at the address of `p`.
DEVICE void store_cluster(float* p, u32 rank, float v) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(cluster_address(p, rank)), "f"(v) : "memory");
}

// Waits for all threads of the cluster, and makes their writes to shared memory visible.
DEVICE void cluster_sync() {
    if constexpr (CLUSTER)
        cluster_barrier();
    else
        __syncthreads();
}

// Loads what the CTA of this rank has at the address of `p`.
template <class T> DEVICE T load_dsmem(const T* p, u32 rank) {
    if constexpr (CLUSTER)
        return load_cluster(p, rank);
    else
        return *p;
}

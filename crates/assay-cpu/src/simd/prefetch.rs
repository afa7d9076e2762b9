//! Software prefetch.

/// Prefetches the cache line of any address.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: part of every x86-64 CPU; a prefetch never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// Prefetches the cache line of any address.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    // SAFETY: part of every AArch64 CPU; a prefetch never faults and changes no register.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{address}]",
            address = in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
}

/// Other CPUs rely on hardware prefetch.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
pub(crate) fn prefetch<T>(_address: *const T) {}

//! Bringing memory to the cache before it is needed.

/// Asks for the line of this address; any address may be given.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: part of every x86-64 processor; a prefetch never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

/// Asks for the line of this address; any address may be given.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    // SAFETY: part of every AArch64 processor; a prefetch never faults and changes no register.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{address}]",
            address = in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
}

/// Other processors find out for themselves.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
pub(crate) fn prefetch<T>(_address: *const T) {}

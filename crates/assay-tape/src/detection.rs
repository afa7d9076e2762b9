//! Which levels this CPU has; the build script asks too.

/// Whether this CPU has the instructions of a level.
pub(super) fn has(level: &str) -> bool {
    match level {
        "baseline" => true,
        #[cfg(target_arch = "x86_64")]
        "avx2" => is_x86_feature_detected!("avx2"),
        #[cfg(target_arch = "x86_64")]
        "avx512" => {
            has("avx2")
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
        }
        _ => false,
    }
}

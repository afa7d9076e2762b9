//! Which levels this CPU has; the build script asks too.

/// Whether this CPU has the instructions of a level.
pub fn has(level: &str) -> bool {
    match level {
        "portable" => true,
        #[cfg(target_arch = "x86_64")]
        "avx2" => {
            is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
        }
        #[cfg(target_arch = "x86_64")]
        "avx512" => {
            has("avx2")
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
        }
        #[cfg(target_arch = "x86_64")]
        "avx512+vnni" => has("avx512") && is_x86_feature_detected!("avx512vnni"),
        #[cfg(target_arch = "aarch64")]
        "neon" => std::arch::is_aarch64_feature_detected!("neon"),
        #[cfg(target_arch = "aarch64")]
        "neon+dotprod" => has("neon") && std::arch::is_aarch64_feature_detected!("dotprod"),
        _ => false,
    }
}

//! Which SIMD levels kernels are compiled for: all of the target, or, without the feature
//! `every-level`, the best one of the CPU that builds.

use std::env;

#[path = "src/simd/detection.rs"]
mod detection;

/// Levels that kernels can be compiled for, the best one last.
fn levels(architecture: &str) -> &'static [&'static str] {
    match architecture {
        "x86_64" => &["portable", "avx2", "avx512", "avx512+vnni"],
        "aarch64" => &["portable", "neon", "neon+dotprod"],
        _ => &["portable"],
    }
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/simd/detection.rs");
    println!("cargo::rustc-check-cfg=cfg(level, values(any()))");
    let target = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let mut levels = levels(&target);
    let every = env::var_os("CARGO_FEATURE_EVERY_LEVEL").is_some();
    if !every && target == env::consts::ARCH {
        let best = levels.iter().rposition(|level| detection::has(level));
        levels = best.map_or(levels, |best| &levels[best..=best]);
    }
    for level in levels {
        println!("cargo::rustc-cfg=level=\"{level}\"");
    }
}

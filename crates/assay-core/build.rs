//! Tells the crate whether this compiler knows AVX-512, which stable Rust does from 1.89 on.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(assay_avx512)");
    if minor_version().is_some_and(|minor| minor >= 89) {
        println!("cargo::rustc-cfg=assay_avx512");
    }
}

/// The 95 of `rustc 1.95.0 (...)`; unknown compilers are taken to be old.
fn minor_version() -> Option<u32> {
    let compiler = env::var_os("RUSTC")?;
    let output = Command::new(compiler).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text.split_whitespace().nth(1)?;
    version.split('.').nth(1)?.parse().ok()
}

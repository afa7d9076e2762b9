//! What this binary was built from and for.

/// Facts fixed when the binary was compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildInfo {
    /// Version of the distribution.
    pub version: &'static str,
    /// Processor architecture, for example `x86_64`.
    pub arch: &'static str,
    /// Operating system, for example `linux`.
    pub os: &'static str,
    /// `true` when compiled with debug assertions.
    pub debug_assertions: bool,
}

/// Returns the facts of this build.
pub const fn build_info() -> BuildInfo {
    BuildInfo {
        version: env!("CARGO_PKG_VERSION"),
        arch: std::env::consts::ARCH,
        os: std::env::consts::OS,
        debug_assertions: cfg!(debug_assertions),
    }
}

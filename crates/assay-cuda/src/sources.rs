//! The CUDA sources of `kernels/`, embedded by the build script.

/// Every source, by its file name: folders are for people, `#include` names the file alone.
pub const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// The text of the source with this file name.
pub fn source(name: &str) -> Option<&'static str> {
    let found = SOURCES.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}

/// The headers that NVRTC is given with every source.
pub fn headers() -> Vec<(&'static str, &'static str)> {
    let all = SOURCES.iter().copied();
    all.filter(|(name, _)| name.ends_with(".cuh")).collect()
}

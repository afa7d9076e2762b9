//! The kernels' sources, as they are in the folder `kernels`.

/// Every source by its file name.
pub const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// The source of this name.
pub fn source(name: &str) -> Option<&'static str> {
    let found = SOURCES.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}

/// What the sources include.
pub fn headers() -> Vec<(&'static str, &'static str)> {
    let all = SOURCES.iter().copied();
    all.filter(|(name, _)| name.ends_with(".cuh")).collect()
}

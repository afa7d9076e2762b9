//! The CUDA sources of `kernels/`, embedded by the build script, and the generated header.

use crate::operations::codes;
use std::sync::LazyLock;

/// Name and text.
type Source = (&'static str, &'static str);

const FILES: &[Source] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

static CODES: LazyLock<String> = LazyLock::new(codes::header);
static SOURCES: LazyLock<Vec<Source>> =
    LazyLock::new(|| [&[("codes.cuh", CODES.as_str())], FILES].concat());

/// Every source, by its file name: folders are for people, `#include` names the file alone.
pub fn sources() -> &'static [Source] {
    &SOURCES
}

/// The text of the source with this file name.
pub fn source(name: &str) -> Option<&'static str> {
    let source = sources().iter().find(|(known, _)| *known == name);
    source.map(|(_, text)| *text)
}

/// The headers that NVRTC is given with every source.
pub fn headers() -> Vec<Source> {
    let all = sources().iter().copied();
    all.filter(|(name, _)| name.ends_with(".cuh")).collect()
}

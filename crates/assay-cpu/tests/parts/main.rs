//! Tests of single parts, in one program: each more would be linked anew, and as unit tests they
//! would have all kernels compiled a second time.

#[path = "../common/mod.rs"]
mod common;

mod cache_element;
mod convolution;
mod experts;
mod half_precision;
mod kernels;
mod pairs;
mod pairs_invariants;
mod plane_products;
mod residual;
mod roofline;
mod scan;
mod threads;
#[cfg(target_arch = "x86_64")]
mod tiles;

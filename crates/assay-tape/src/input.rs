//! Inputs of an evaluation.

/// One input of an evaluation.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// The same number at every point.
    Uniform(f64),
    /// One number per point.
    Varying(&'a [f64]),
}

//! Resources made of another resource and one more ability; they stack in any order.

mod failure;
mod limiting;
mod logging;
mod statistics;
mod tracking;

pub use failure::{Decision, Failure, FailureCallback};
pub use limiting::Limiting;
pub use logging::Logging;
pub use statistics::{Counters, Statistics};
pub use tracking::{Outstanding, Tracking};

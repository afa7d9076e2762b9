//! Resource adaptors, as in RMM: each adds one feature to an upstream resource; they compose in
//! any order.

mod failure;
mod limiting;
mod logging;
mod statistics;
mod tracking;

pub use failure::{Decision, Failure, FailureCallbackAdaptor};
pub use limiting::LimitingAdaptor;
pub use logging::LoggingAdaptor;
pub use statistics::{Counters, StatisticsAdaptor};
pub use tracking::{Outstanding, TrackingAdaptor};

//! Limit order books: price-time priority matching, replayed from columns of events.
//!
//! A book holds the resting orders of an instrument. Each price has a level, a first-in-first-out list
//! of orders; a level is found by its price and an order by its id. How both are found is a choice of
//! [`Levels`] and [`Orders`], made for the cache ([`Ladder`], [`DenseOrders`]) or plainly
//! ([`TreeLevels`], [`MappedOrders`]); the answers are the same.
//!
//! A book never stays crossed: an order that crosses trades, at the price of the resting order. So every
//! occupied price at or below the best bid is a bid and every other one an ask, and one ladder holds
//! both sides.

#![forbid(unsafe_code)]

mod book;
mod columns;
mod dense;
mod event;
mod generate;
mod hashed;
mod ladder;
mod level;
mod mapped;
mod orders;
mod replay;
mod structures;
mod tree;
mod verify;

pub use book::{Book, Fill, FillSink, NO_ASK, NO_BID, Top, Trade};
pub use columns::{Depths, Events, Tops};
pub use dense::DenseOrders;
pub use event::{Event, Kind, Rejection, Side};
pub use generate::{Generator, Market};
pub use hashed::HashedOrders;
pub use ladder::Ladder;
pub use level::{Level, Levels};
pub use mapped::MappedOrders;
pub use orders::{NONE, Order, Orders};
pub use replay::{Books, Replay, Replayed};
pub use structures::{LevelStructure, Lookup, Structure, books};
pub use tree::TreeLevels;

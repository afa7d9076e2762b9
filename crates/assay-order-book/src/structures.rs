//! Books of structures chosen at run time.

use assay_collections::named;

use crate::dense::DenseOrders;
use crate::hashed::HashedOrders;
use crate::ladder::Ladder;
use crate::level::Levels;
use crate::mapped::MappedOrders;
use crate::orders::Orders;
use crate::replay::{Books, Replay};
use crate::tree::TreeLevels;

named! {
    /// How a level is found by its price.
    pub enum LevelStructure {
        /// In a [`TreeLevels`].
        Tree = "tree",
        /// In a [`Ladder`].
        Ladder = "ladder",
    }
}

named! {
    /// How an order is found by its id.
    pub enum Lookup {
        /// In a [`MappedOrders`].
        Map = "map",
        /// In a [`HashedOrders`].
        Hash = "hash",
        /// In a [`DenseOrders`].
        Dense = "dense",
    }
}

/// What books are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Structure {
    /// How a level is found.
    pub levels: LevelStructure,
    /// How an order is found.
    pub lookup: Lookup,
    /// Prices of a ladder.
    pub width: usize,
    /// Ids of a dense lookup are below this.
    pub ids: u64,
}

/// Empty books, all of one structure; compiled here, in the profile of this crate.
pub fn books(instruments: usize, structure: Structure) -> Box<dyn Replay + Sync> {
    match structure.levels {
        LevelStructure::Tree => with_levels(instruments, TreeLevels::default(), structure),
        LevelStructure::Ladder => with_levels(instruments, Ladder::new(structure.width), structure),
    }
}

fn with_levels<L>(instruments: usize, levels: L, structure: Structure) -> Box<dyn Replay + Sync>
where
    L: Levels + Clone + Send + Sync + 'static,
{
    match structure.lookup {
        Lookup::Map => with_orders(instruments, levels, MappedOrders::default()),
        Lookup::Hash => with_orders(instruments, levels, HashedOrders::default()),
        Lookup::Dense => with_orders(instruments, levels, DenseOrders::new(structure.ids)),
    }
}

fn with_orders<L, O>(instruments: usize, levels: L, orders: O) -> Box<dyn Replay + Sync>
where
    L: Levels + Clone + Send + Sync + 'static,
    O: Orders + Clone + Send + Sync + 'static,
{
    Box::new(Books::new(instruments, levels, orders))
}

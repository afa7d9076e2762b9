//! Layers of an Evoformer block (Jumper et al. 2021), each in one pass over blocks of rows that stay in L2: what a
//! block computes before its last product is never written to memory.
//!
//! On AMX, products are those of [`split`](super::split). Elsewhere, and where a number is not finite, a layer is
//! composed of the other operations, some rows at a time.

mod attention;
mod block;
mod outer;
mod projection;
mod transition;
mod triangle;

pub use attention::{AttentionAxis, gated_attention};
pub use outer::{OuterShape, outer_product_mean};
pub use projection::{ChannelProjection, PlaneShape, channel_projection};
pub use transition::{Transition, transition};
pub use triangle::{TriangleShape, TriangleUpdate, triangle_update};

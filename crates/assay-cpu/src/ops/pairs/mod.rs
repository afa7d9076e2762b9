//! Layers of an Evoformer block (Jumper et al. 2021), each in one pass over blocks of rows that stay in L2: what a
//! block computes before its last product is never written to memory.
//!
//! On AMX, products are those of [`split`](super::split). Elsewhere, where a number is not finite, and in attention,
//! rows are [`columns`], sixteen to a vector, from the first norm to the last [`product`].

mod attention;
mod block;
mod columns;
mod exponential;
mod outer;
mod plane_products;
mod product;
mod projection;
mod transition;
mod triangle;

pub use attention::{AttentionAxis, gated_attention};
pub use outer::{OuterShape, outer_product_mean};
pub use plane_products::{plane_products, plane_products_apply};
pub use projection::{ChannelProjection, PlaneShape, channel_projection};
pub use transition::{Transition, transition};
pub use triangle::{TriangleShape, TriangleUpdate, triangle_update};

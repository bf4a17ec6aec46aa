//! What the broker tells of itself: metrics, and whether it is alive and ready.
//!
//! Owner: every shard counts and renders its own; nothing is shared and nothing is locked. Whoever is asked for all of it asks the other
//! shards through the mesh and puts the parts together.

mod exposition;
mod families;
mod group_metrics;
mod life;
mod requests;
mod shard_metrics;

pub use exposition::{Exposition, join};
pub use families::{FAMILIES, Family, Kind, Metric};
pub use life::{Life, Phase};
pub use requests::RequestMeters;
pub use shard_metrics::{of_process, of_shard};

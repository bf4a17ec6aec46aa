//! From `host:port` to the addresses to try.
//!
//! Numbers are read here; names are looked up on the shard's helper thread, since the system's resolver blocks. A simulated
//! world uses numbers, so no look-up leaves it.

use std::net::{SocketAddr, ToSocketAddrs};

use shard::Shard;

use crate::Error;

/// The addresses behind `host:port`, in the resolver's order; at least one.
pub(crate) async fn resolve(shard: &Shard, address: &str) -> Result<Vec<SocketAddr>, Error> {
    if let Ok(number) = address.parse() {
        return Ok(vec![number]);
    }
    let failed = |cause: String| Error::Connect { address: address.to_owned(), cause };
    let name = address.to_owned();
    let found = shard.offload(move || name.to_socket_addrs().map(Iterator::collect::<Vec<_>>)).await;
    match found {
        Ok(addresses) if addresses.is_empty() => Err(failed("the name has no address".into())),
        Ok(addresses) => Ok(addresses),
        Err(error) => Err(failed(error.to_string())),
    }
}

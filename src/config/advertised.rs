//! Where clients are told to go: what `advertised` says, or the address that is listened on. Pure.
//!
//! A client connects to what it is told, from another machine perhaps: a wildcard address would send it to itself, which looks like a
//! broker that is down. So it is refused before anything is opened, as Kafka refuses it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// The host without brackets, and the port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
}

/// Why clients can't be told where to go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdvertisedError {
    NotHostPort {
        advertised: String,
    },
    /// `listen` is a wildcard address and nothing else is advertised.
    WildcardListen {
        listen: SocketAddr,
    },
    WildcardAdvertised {
        advertised: String,
    },
}

impl fmt::Display for AdvertisedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WHY: &str =
            "clients connect to what they are told, and a wildcard address leads them to their own machine";
        match self {
            Self::NotHostPort { advertised } => write!(
                f,
                "advertised = \"{advertised}\" is not HOST:PORT; give a name or an address, as in broker.example:9092 or [::1]:9092"
            ),
            Self::WildcardListen { listen } => write!(
                f,
                "listen = {listen} says where to listen and not where to connect: {WHY}; give the name or address that clients are to use with \
                 --advertised HOST:PORT, or `advertised` in the configuration, or listen on one address"
            ),
            Self::WildcardAdvertised { advertised } => {
                write!(f, "advertised = \"{advertised}\": {WHY}; advertise the name or address that clients are to use")
            }
        }
    }
}

impl std::error::Error for AdvertisedError {}

/// What clients are told. `listen` is the address that is listened on; its port stands in where `advertised` has port 0.
///
/// # Errors
/// See [`AdvertisedError`].
pub fn endpoint(advertised: Option<&str>, listen: SocketAddr) -> Result<Endpoint, AdvertisedError> {
    let Some(advertised) = advertised else {
        if listen.ip().is_unspecified() {
            return Err(AdvertisedError::WildcardListen { listen });
        }
        return Ok(Endpoint { host: listen.ip().to_string(), port: listen.port() });
    };
    let parts = advertised.rsplit_once(':').and_then(|(host, port)| Some((bare(host)?, port.parse().ok()?)));
    let Some((host, port)) = parts else {
        return Err(AdvertisedError::NotHostPort { advertised: advertised.to_owned() });
    };
    if host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified()) {
        return Err(AdvertisedError::WildcardAdvertised { advertised: advertised.to_owned() });
    }
    Ok(Endpoint { host: host.to_owned(), port: if port == 0 { listen.port() } else { port } })
}

/// A host without the brackets that an IPv6 address needs beside a port.
fn bare(host: &str) -> Option<&str> {
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').filter(|ip| ip.parse::<std::net::Ipv6Addr>().is_ok()),
        None => {
            Some(host).filter(|host| !host.is_empty() && !host.contains([':', '/', '[', ']']) && host.trim() == *host)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_an_address_that_leads_somewhere() {
        // advertised, listen, what clients are told
        for (advertised, listen, told) in [
            (None, "127.0.0.1:9092", Ok(("127.0.0.1", 9092))),
            (None, "[::1]:7", Ok(("::1", 7))),
            (Some("broker.example:9092"), "0.0.0.0:1", Ok(("broker.example", 9092))),
            (Some("broker.example:0"), "0.0.0.0:1", Ok(("broker.example", 1))),
            (Some("[fe80::1]:5"), "[::]:1", Ok(("fe80::1", 5))),
            (None, "0.0.0.0:9092", Err("--advertised HOST:PORT")),
            (None, "[::]:9092", Err("--advertised HOST:PORT")),
            (Some("0.0.0.0:9092"), "127.0.0.1:1", Err("wildcard")),
            (Some("[::]:9092"), "127.0.0.1:1", Err("wildcard")),
            (Some("broker.example"), "127.0.0.1:1", Err("not HOST:PORT")),
            (Some(":9092"), "127.0.0.1:1", Err("not HOST:PORT")),
            (Some("::1:9092"), "127.0.0.1:1", Err("not HOST:PORT")),
            (Some("[broker]:9092"), "127.0.0.1:1", Err("not HOST:PORT")),
            (Some("broker:99999"), "127.0.0.1:1", Err("not HOST:PORT")),
            (Some("PLAINTEXT://broker:9092"), "127.0.0.1:1", Err("not HOST:PORT")),
        ] {
            let found = endpoint(advertised, listen.parse().expect("an address"));
            match (found, told) {
                (Ok(found), Ok((host, port))) => assert_eq!((found.host.as_str(), found.port), (host, port)),
                (Err(error), Err(word)) => assert!(error.to_string().contains(word), "{error}"),
                (found, told) => panic!("{advertised:?} {listen}: {found:?}, not {told:?}"),
            }
        }
    }
}

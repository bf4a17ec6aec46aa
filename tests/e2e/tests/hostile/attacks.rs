//! The attacks. Each returns when every one of its peers was answered or closed, as far as it waited for that.

use std::net::TcpStream;

use base::Random;
use wire::ApiKey;
use wire::messages::{ApiVersionsRequest, ApiVersionsResponse};
use wire::{Decoder, Message, ResponseHeader};

use super::bodies;
use super::peer::{Outcome, Peer, framed, request, side_by_side, thread};

/// Peers at once, where each has a thread.
const THREADS: usize = 8;

/// Bytes that are no frames, and lengths that no frame may have or that nothing follows.
pub fn bytes_and_lengths(kafka: &str, random: &mut Random) {
    for _ in 0..200 {
        let mut peer = Peer::connect(kafka);
        peer.send(&bodies::random_bytes(random, 5000));
        peer.finish();
    }
    let limit = 100 << 20;
    for length in [0_u32, 1, 2, 7, 8, limit, limit + 1, 1 << 30, i32::MAX as u32, 1 << 31, (1 << 31) + 1, u32::MAX] {
        for more in [0, 1, 2, 9, 5000] {
            let mut peer = Peer::connect(kafka);
            peer.send(&length.to_be_bytes());
            peer.send(&bodies::random_bytes(random, more + 1));
            peer.finish();
        }
    }
    // A length over the limit needs no byte more to be refused.
    for length in [1_u32 << 31, u32::MAX, i32::MAX as u32] {
        let mut peer = Peer::connect(kafka);
        peer.send(&length.to_be_bytes());
        assert_eq!(peer.outcome(), Outcome::Closed, "a length of {length}");
    }
}

/// Every API and version that the broker says it serves, and their neighbours, with every body.
pub fn every_api(kafka: &str, random: &mut Random) -> usize {
    let bodies = bodies::without_schema(random);
    let mut requests = Vec::new();
    for (key, versions) in served(kafka) {
        for version in versions.start() - 1..=versions.end() + 1 {
            requests.extend(bodies.iter().map(|body| request(key, version, body)));
        }
    }
    for key in [-1, 4, 99, i16::MIN, i16::MAX] {
        requests.extend(bodies.iter().map(|body| request(key, 1, body)));
    }
    let count = requests.len();
    let parts: Vec<Vec<Vec<u8>>> = requests.chunks(count.div_ceil(THREADS)).map(<[_]>::to_vec).collect();
    let kafka = kafka.to_owned();
    side_by_side(parts.len(), move |part| {
        for request in &parts[part] {
            let mut peer = Peer::connect(&kafka);
            peer.send(request);
            peer.finish();
        }
    });
    count
}

fn served(kafka: &str) -> Vec<(i16, std::ops::RangeInclusive<i16>)> {
    use std::io::Read;
    let mut peer = Peer::connect(kafka);
    peer.send(&request(ApiKey::ApiVersions.code(), 0, &[]));
    let mut length = [0; 4];
    peer.0.read_exact(&mut length).expect("an answer");
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    peer.0.read_exact(&mut frame).expect("a whole answer");
    let mut decoder = Decoder::new(&frame);
    ResponseHeader::decode(&mut decoder, ApiVersionsRequest::KEY, 0).expect("a header");
    let response = ApiVersionsResponse::decode_exact(decoder, 0).expect("an answer to ApiVersions");
    response.api_keys.iter().map(|api| (api.api_key, api.min_version..=api.max_version)).collect()
}

/// Whole requests that ask for as much as they can, of lengths below and above what is let in; some peers take their answers, others never
/// do. Returns how many were answered.
pub fn greedy(kafka: &str, lengths: &[usize]) -> usize {
    let mut answered = 0;
    for &length in lengths {
        for frame in bodies::greedy(length) {
            // Those that never read: their answers stay where they are until the broker has enough of it.
            let silent: Vec<Peer> = (0..THREADS)
                .map(|_| {
                    let mut peer = Peer::connect(kafka);
                    peer.send_what_is_taken(&frame, 4);
                    peer
                })
                .collect();
            let mut peer = Peer::connect(kafka);
            peer.send(&frame);
            answered += usize::from(peer.outcome() != Outcome::Closed);
            drop(silent);
        }
    }
    answered
}

/// Frames that begin and never end, of lengths that are all let in; they stay until they are dropped.
pub fn half_frames(kafka: &str, count: usize) -> Vec<Peer> {
    let produce = [ApiKey::Produce.code().to_be_bytes(), 9_i16.to_be_bytes()].concat();
    let begun = |number: usize| {
        let length: u32 = [1_000_000, 100_000, 5_000_000, 900_000][number % 4];
        let sent = [2, 5, 20_000, 300_000][number / 4 % 4];
        let mut peer = Peer::connect(kafka);
        let mut bytes = [&length.to_be_bytes()[..], &produce, &vec![0; sent]].concat();
        bytes.truncate(if number.is_multiple_of(16) { 3 } else { sent });
        peer.send_what_is_taken(&bytes, 1);
        peer
    };
    (0..count).map(begun).collect()
}

/// A request a byte at a time, all peers in turn: every one is answered in the end.
pub fn slow_senders(kafka: &str, count: usize) {
    let body: &[u8] = &[2, b'x', 2, b'1', 0];
    let request = request(ApiKey::ApiVersions.code(), 3, body);
    let mut peers: Vec<Peer> = (0..count).map(|_| Peer::connect(kafka)).collect();
    for byte in &request {
        peers.iter_mut().for_each(|peer| peer.send(&[*byte]));
    }
    for peer in &mut peers {
        assert_ne!(peer.outcome(), Outcome::Closed, "a slow sender is answered");
    }
}

/// Peers that ask for all there is, again and again, and take nothing.
pub fn slow_readers(kafka: &str, count: usize) -> Vec<Peer> {
    let (fetch, metadata) = (bodies::fetch_all(), bodies::metadata_of_all());
    let reader = |number: usize| {
        let mut peer = Peer::connect(kafka);
        peer.send_what_is_taken(if number.is_multiple_of(2) { &fetch } else { &metadata }, 5000);
        peer
    };
    (0..count).map(reader).collect()
}

/// Connections that say nothing, one request long known to be answered before.
pub fn idle(kafka: &str, count: usize) -> Vec<TcpStream> {
    let asked = request(ApiKey::ApiVersions.code(), 0, &[]);
    let mut peers: Vec<Peer> = (0..count).map(|_| Peer::connect(kafka)).collect();
    peers.iter_mut().for_each(|peer| peer.send(&asked));
    for peer in &mut peers {
        assert_ne!(peer.outcome(), Outcome::Closed, "a connection within the limit is served");
    }
    peers.into_iter().map(|peer| peer.0).collect()
}

/// Connections that come and go, with nothing, with half a word, with what is no request.
pub fn storm(kafka: &str, count: usize) {
    let kafka = kafka.to_owned();
    let storm = move |part: usize| {
        for number in 0..count / THREADS {
            let mut peer = Peer::connect(&kafka);
            match (number + part) % 4 {
                0 => {}
                1 => peer.send(&[0, 0]),
                2 => peer.send(&framed(b"GET / HTTP/1.1\r\n\r\n")),
                _ => {
                    // Closed with a reset.
                    rustix::net::sockopt::set_socket_linger(&peer.0, Some(std::time::Duration::ZERO))
                        .expect("an option");
                }
            }
        }
    };
    let threads: Vec<_> = (0..THREADS)
        .map(|part| {
            let storm = storm.clone();
            thread(move || storm(part))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("connections are taken or refused"));
}

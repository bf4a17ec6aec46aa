//! Bytes that mean harm: the bodies of the fuzz targets over seeded mutations of valid frames, with the memory they take.
//!
//! One test, since the allocator counts for the whole process.

#[macro_use]
#[path = "../support/sample.rs"]
mod sample;
#[macro_use]
#[path = "../support/table.rs"]
mod table;
#[macro_use]
#[path = "../support/versioned_table.rs"]
mod versioned_table;
mod bodies;
#[path = "../../../../fuzz/src/memory.rs"]
mod memory;
mod versioned;

use base::Random;
use sample::{Sample, Source};
use wire::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use wire::{Decoder, Encoder, LENGTH_BYTES, Message, Role, Versioned, encode_response};

/// Samples per message and version, and mutations of each.
const SAMPLES: u64 = 6;
const MUTATIONS: u64 = 60;

/// What the body of a fuzz target for this message reads.
fn input_of<'a, M: Message<'a> + Sample>(version: i16, seed: u64) -> Vec<u8> {
    let message = M::sample(&mut Source::new(version, seed));
    if M::ROLE == Role::Response {
        let frame = encode_response(version, 1, &message, Vec::new()).unwrap();
        let asked = [M::KEY.code().to_be_bytes(), version.to_be_bytes()].concat();
        return [&asked, &frame.structure()[LENGTH_BYTES..]].concat();
    }
    let mut encoder = Encoder::new();
    let header = wire::RequestHeader { api_key: M::KEY, api_version: version, correlation_id: 1, client_id: Some("c") };
    header.encode(&mut encoder).unwrap();
    message.encode(version, &mut encoder).unwrap();
    encoder.bytes().to_vec()
}

fn run(role: Role, input: &[u8]) -> bool {
    memory::bounded(input, |input| match role {
        Role::Request => bodies::request_decode(input),
        Role::Response => bodies::response_decode(input),
    })
}

/// Changes a few things at random places: bits, bytes that are lengths or ends of numbers, stretches cut out or doubled.
fn mutate(input: &mut Vec<u8>, random: &mut Random) {
    const LENGTHS: [&[u8]; 6] =
        [&[0x7f, 0xff, 0xff, 0xff], &[0xff; 4], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[0x80; 5], &[0x7f, 0xff], &[0]];
    for _ in 0..=random.below(4) {
        if input.is_empty() {
            return;
        }
        // The first bytes are the key and the version, which mostly stay, or little else would be read.
        let spare = if random.chance(9, 10) { 4.min(input.len() - 1) } else { 0 };
        let at = spare + random.below((input.len() - spare) as u64) as usize;
        let end = at + random.below(20.min(input.len() as u64 - at as u64) + 1) as usize;
        match random.below(6) {
            0 => input[at] ^= 1 << random.below(8),
            1 => input[at] = random.next_u64() as u8,
            2 => input.truncate(at),
            3 => drop(input.drain(at..end)),
            4 => input.extend_from_within(at..end),
            _ => {
                let length = LENGTHS[random.below(LENGTHS.len() as u64) as usize];
                let end = (at + length.len()).min(input.len());
                input.splice(at..end, length.iter().copied());
            }
        }
    }
}

/// Reads the message and walks all of it, and gives the memory that took.
fn bytes_to_read<'a, M: Message<'a> + Clone + PartialEq>(bytes: &'a [u8], version: i16) -> usize {
    let (same, peak_bytes) = memory::measured(|| {
        let message = M::decode_exact(Decoder::new(bytes), version);
        message.is_ok() && message.clone() == message
    });
    assert!(same, "{} {version}", M::NAME);
    peak_bytes
}

fn read_without_memory() {
    macro_rules! check {
        ($name:ident) => {
            for version in <wire::messages::$name as Message>::VERSIONS {
                let message = wire::messages::$name::sample(&mut Source::new(version, 7));
                let mut encoder = Encoder::new();
                message.encode(version, &mut encoder).unwrap();
                let peak_bytes = bytes_to_read::<wire::messages::$name>(encoder.bytes(), version);
                assert_eq!(peak_bytes, 0, "{} {version}", stringify!($name));
            }
        };
    }
    every_message!(check);
}

fn survive_mutations() {
    let mut random = Random::new(0x7469_6465);
    let (mut still_read, mut refused) = (0, 0);
    macro_rules! check {
        ($name:ident) => {
            let role = <wire::messages::$name as Message>::ROLE;
            for version in <wire::messages::$name as Message>::VERSIONS {
                for seed in 0..SAMPLES {
                    let valid = input_of::<wire::messages::$name>(version, seed);
                    assert!(run(role, &valid), "{} {version} {seed}", stringify!($name));
                    for _ in 0..MUTATIONS {
                        let mut input = valid.clone();
                        mutate(&mut input, &mut random);
                        *if run(role, &input) { &mut still_read } else { &mut refused } += 1;
                    }
                }
            }
        };
    }
    every_message!(check);
    // Both ways out are taken, or the mutations are too weak or too strong to test anything.
    assert!(still_read > 1_000 && refused > 1_000, "{still_read} read, {refused} refused");
}

/// The bytes with the largest count of either kind at a place.
fn with_huge_count(valid: &[u8], at: usize) -> [Vec<u8>; 2] {
    [[0x7f, 0xff, 0xff, 0xff, 0xff], [0xff, 0xff, 0xff, 0xff, 0x0f]].map(|huge| {
        let mut input = valid.to_vec();
        let length = huge.len().min(input.len() - at);
        input[at..at + length].copy_from_slice(&huge[..length]);
        input
    })
}

/// Every place of a frame in turn claims to be the largest count of either kind.
fn survive_huge_counts() {
    macro_rules! check {
        ($name:ident) => {
            let role = <wire::messages::$name as Message>::ROLE;
            for version in <wire::messages::$name as Message>::VERSIONS {
                let valid = input_of::<wire::messages::$name>(version, 1);
                for at in 0..valid.len().min(400) {
                    for input in with_huge_count(&valid, at) {
                        run(role, &input);
                    }
                }
            }
        };
    }
    every_message!(check);
}

/// What the body of the fuzz target for records reads.
fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    [&u16::try_from(key.len()).unwrap().to_be_bytes(), key, value].concat()
}

type Body = fn(&[u8]) -> bool;

/// The bodies for what has its version in front, each with valid inputs of every kind and version.
fn versioned_inputs() -> Vec<(Body, Vec<u8>)> {
    let mut inputs: Vec<(Body, Vec<u8>)> = Vec::new();
    for seed in 0..SAMPLES {
        macro_rules! records {
            ($kind:ident, $key:ident, $value:ident) => {
                let fields = (seed..).map(|seed| wire::group_records::$key::sample(&mut Source::new(0, seed)));
                let mut keys = fields.map(|fields| wire::group_records::Key::$kind(fields).to_bytes().unwrap());
                let key = keys.find(|key| key.len() < 1_000).expect("a sample is short sooner or later");
                for version in wire::group_records::$value::VERSIONS {
                    let value = wire::group_records::$value::sample(&mut Source::new(version, seed));
                    inputs.push((versioned::group_record, record(&key, &value.to_bytes(version).unwrap())));
                }
            };
        }
        every_record!(records);
        for version in ConsumerProtocolSubscription::VERSIONS {
            let value = ConsumerProtocolSubscription::sample(&mut Source::new(version, seed));
            inputs.push((versioned::subscription, value.to_bytes(version).unwrap()));
            let value = ConsumerProtocolAssignment::sample(&mut Source::new(version, seed));
            inputs.push((versioned::assignment, value.to_bytes(version).unwrap()));
        }
    }
    inputs
}

fn versioned_structs_survive() {
    let mut random = Random::new(0x6f66_6673);
    let (mut still_read, mut refused) = (0, 0);
    for (body, valid) in versioned_inputs() {
        assert!(memory::bounded(&valid, body));
        for _ in 0..MUTATIONS {
            let mut input = valid.clone();
            mutate(&mut input, &mut random);
            *if memory::bounded(&input, body) { &mut still_read } else { &mut refused } += 1;
        }
        for at in 0..valid.len().min(400) {
            for input in with_huge_count(&valid, at) {
                memory::bounded(&input, body);
            }
        }
    }
    assert!(still_read > 1_000 && refused > 1_000, "{still_read} read, {refused} refused");
}

#[test]
fn hostile_bytes_cost_neither_a_panic_nor_memory() {
    read_without_memory();
    survive_huge_counts();
    survive_mutations();
    versioned_structs_survive();
}

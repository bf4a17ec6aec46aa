//! Produce 0 to 2, which are advertised for librdkafka's sake and served with one answer: UNSUPPORTED_VERSION.
//!
//! These versions carry message sets of formats 0 and 1. The request is read only as far as the names of its partitions, which
//! the answer repeats. They stand outside `wire`, which knows the versions that Kafka 4 knows.

use net::Reply;
use wire::{Decoder, ErrorCode};

use super::context::{Context, Refusal};

/// Answers every partition with UNSUPPORTED_VERSION.
///
/// Layouts: request `acks i16, timeout i32, [topic string, [partition i32, records bytes]]`; response
/// `[topic string, [partition i32, error i16, base offset i64, (2+) append time i64]], (1+) throttle i32`.
pub fn unsupported(context: &Context) -> Result<Reply, Refusal> {
    let mut request = context.body();
    request.set_version(context.version, false);
    request.take_i16()?;
    request.take_i32()?;
    let mut body = Vec::new();
    array(&mut request, &mut body, |request, body| {
        let name = request.take_string()?.unwrap_or_default();
        let length = i16::try_from(name.len()).expect("a string of an old version has a length of two bytes");
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(name.as_bytes());
        array(request, body, |request, body| {
            let partition = request.take_i32()?;
            request.take_bytes()?;
            body.extend_from_slice(&partition.to_be_bytes());
            body.extend_from_slice(&ErrorCode::UnsupportedVersion.code().to_be_bytes());
            body.extend_from_slice(&(-1i64).to_be_bytes());
            if context.version >= 2 {
                body.extend_from_slice(&(-1i64).to_be_bytes());
            }
            Ok(())
        })
    })?;
    request.finish()?;
    if context.version >= 1 {
        body.extend_from_slice(&0i32.to_be_bytes());
    }
    Ok(context.answer_raw(&body))
}

/// Walks an array of the request and repeats its count in the answer. Each element takes at least two bytes of the request, so the
/// answer is bounded by it.
fn array<'a>(
    request: &mut Decoder<'a>,
    body: &mut Vec<u8>,
    mut element: impl FnMut(&mut Decoder<'a>, &mut Vec<u8>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let count = request.take_count()?.unwrap_or(0);
    body.extend_from_slice(&i32::try_from(count).expect("the count came from an i32").to_be_bytes());
    (0..count).try_for_each(|_| element(request, body))
}

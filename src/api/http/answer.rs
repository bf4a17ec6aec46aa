//! The answers of routes: whole texts, never cached.

use net::http::{Answer, Bytes, Full, Response, StatusCode, header};

/// A plain text.
pub fn text(status: StatusCode, body: String) -> Answer {
    typed(status, "text/plain; charset=utf-8", body)
}

/// A text of some kind.
pub fn typed(status: StatusCode, content_type: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    answer.headers_mut().insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    answer
}

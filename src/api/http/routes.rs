//! The contents page of the HTTP port: a line for each route.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use net::http::{Answer, Incoming, Method, Request, StatusCode, header};

use super::answer::text;
use super::{health, metrics};
use crate::observe::Life;

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

struct Route {
    path: &'static str,
    handler: fn(Rc<Life>) -> Boxed<Answer>,
}

/// Every route; each answers GET and HEAD.
const ROUTES: &[Route] = &[
    Route { path: "/healthz", handler: |life| Box::pin(health::healthz(life)) },
    Route { path: "/metrics", handler: |life| Box::pin(metrics::handle(life)) },
    Route { path: "/readyz", handler: |life| Box::pin(health::readyz(life)) },
];

/// Takes a request to its route.
pub async fn answer(life: Rc<Life>, request: Request<Incoming>) -> Answer {
    let Some(route) = ROUTES.iter().find(|route| route.path == request.uri().path()) else {
        let known: Vec<_> = ROUTES.iter().map(|route| route.path).collect();
        return text(StatusCode::NOT_FOUND, format!("there is no such path here; there are {}\n", known.join(", ")));
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, format!("{} takes GET and HEAD\n", route.path));
        refused.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    (route.handler)(life).await
}

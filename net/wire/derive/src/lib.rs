//! `#[derive(Wire)]`: the wire format of a struct of the Kafka protocol, from what its fields say.
//!
//! A field says, in Kafka's own terms:
//!
//! ```text
//! #[wire(versions = "2+")]             the versions that have the field; all of them where not said
//! #[wire(nullable = "7+")]             the versions in which it may be null; its type is then an Option
//! #[wire(tag = 0)]                     a tagged field; `tagged = "9+"` where only some of its versions are
//! #[wire(default = Offset(-1))]        what it is where the version lacks it; Default::default() where not said
//! #[wire(ignorable)]                   dropped silently where the version lacks it, in place of an error
//! ```
//!
//! The outermost struct also says which message it is, or that it has its version in front in place of a header:
//!
//! ```text
//! #[wire(request = Produce, versions = "3-13", reply = ProduceResponse<'r>)]
//! #[wire(response = Produce, versions = "3-13")]
//! #[wire(versioned, versions = "0-4", flexible = "4+")]
//! ```
//!
//! The derive writes `Default`, `wire::Wire`, `wire::Nullable` and, for a message, `wire::Message` and `wire::Request`, or
//! else `wire::Versioned`. Fields are written in the order of the struct, which is therefore the order of Kafka's
//! definition. Which versions of a message are flexible is not said here: it is a property of the API key
//! (`wire::ApiKey::flexible_from`).

mod generate;
mod shape;
mod versions;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

use crate::shape::Shape;

/// See the crate's own page.
#[proc_macro_derive(Wire, attributes(wire))]
pub fn derive_wire(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    match Shape::parse(input) {
        Ok(shape) => generate::all(&shape).into(),
        Err(error) => error.into_compile_error().into(),
    }
}

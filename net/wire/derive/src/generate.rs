//! The code that a [`Shape`] becomes. Paths are absolute (`::wire::...`), so the derive works in every crate, the `wire`
//! crate itself included (it names itself `wire`).

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Ident, Lifetime};

use crate::shape::{FieldShape, MessageShape, Shape, VersionedShape, Whole};
use crate::versions::Versions;

pub fn all(shape: &Shape) -> TokenStream {
    let default = default_impl(shape);
    let wire = wire_impl(shape);
    let whole = shape.whole.as_ref().map(|whole| {
        let whole = match whole {
            Whole::Message(message) => message_impl(shape, message),
            Whole::Versioned(versioned) => versioned_impl(shape, versioned),
        };
        let name = &shape.name;
        quote! {
            #whole

            // Decoding recurses by the nesting of the types and by nothing else, so this bounds the stack.
            const _: () = assert!(<#name as ::wire::Wire<'static>>::DEPTH <= ::wire::DEPTH_MAX);
        }
    });
    quote!(#default #wire #whole)
}

/// The type with its lifetime, and the lifetime of the frame in the impls.
fn names(shape: &Shape) -> (TokenStream, Lifetime) {
    let name = &shape.name;
    match &shape.lifetime {
        Some(lifetime) => (quote!(#name<#lifetime>), lifetime.clone()),
        None => (quote!(#name), Lifetime::new("'frame", Span::call_site())),
    }
}

fn default_of(field: &FieldShape) -> TokenStream {
    match &field.default {
        Some(expression) => quote!(#expression),
        None => quote!(::core::default::Default::default()),
    }
}

fn path_of(shape: &Shape, field: &FieldShape) -> String {
    format!("{}.{}", shape.name, field.ident)
}

/// The condition "in this version the field stands in the body"; `None` where it never does.
fn in_body(field: &FieldShape) -> Option<TokenStream> {
    let present = field.versions.condition();
    match &field.tagged {
        None => Some(present),
        Some(tagged) if tagged.versions == field.versions => None,
        Some(tagged) => {
            let tagged = tagged.versions.condition();
            Some(quote!(#present && !(#tagged)))
        }
    }
}

fn default_impl(shape: &Shape) -> TokenStream {
    let name = &shape.name;
    let generics = shape.lifetime.as_ref().map(|lifetime| quote!(<#lifetime>));
    let fields = shape.fields.iter().map(|field| {
        let (ident, default) = (&field.ident, default_of(field));
        quote!(#ident: #default)
    });
    quote! {
        impl #generics ::core::default::Default for #name #generics {
            fn default() -> Self {
                Self { #(#fields),* }
            }
        }
    }
}

fn wire_impl(shape: &Shape) -> TokenStream {
    let (ty, lifetime) = names(shape);
    let depth = shape.fields.iter().fold(quote!(0), |depth, field| {
        let field_type = field.wire_type();
        quote!(::wire::derived::deeper(#depth, <#field_type as ::wire::Wire<#lifetime>>::DEPTH))
    });
    let (put, take) = (put_body(shape), take_body(shape));
    quote! {
        #[automatically_derived]
        impl<#lifetime> ::wire::Wire<#lifetime> for #ty {
            const DEPTH: usize = 1 + #depth;

            fn put(&self, encoder: &mut ::wire::Encoder) -> ::core::result::Result<(), ::wire::EncodeError> {
                #put
            }

            fn take(
                decoder: &mut ::wire::Decoder<#lifetime>,
            ) -> ::core::result::Result<Self, ::wire::DecodeError> {
                #take
            }
        }

        #[automatically_derived]
        impl<#lifetime> ::wire::Nullable<#lifetime> for #ty {
            fn put_null(encoder: &mut ::wire::Encoder) {
                encoder.put_i8(-1);
            }

            fn put_present(&self, encoder: &mut ::wire::Encoder) -> ::core::result::Result<(), ::wire::EncodeError> {
                encoder.put_i8(1);
                self.put(encoder)
            }

            fn take_nullable(
                decoder: &mut ::wire::Decoder<#lifetime>,
            ) -> ::core::result::Result<::core::option::Option<Self>, ::wire::DecodeError> {
                if decoder.take_i8()? < 0 {
                    return ::core::result::Result::Ok(::core::option::Option::None);
                }
                <Self as ::wire::Wire<#lifetime>>::take(decoder).map(::core::option::Option::Some)
            }

            fn put_tagged_null(encoder: &mut ::wire::Encoder) {
                encoder.put_uvarint(0);
            }

            fn put_tagged_present(
                &self,
                encoder: &mut ::wire::Encoder,
            ) -> ::core::result::Result<(), ::wire::EncodeError> {
                encoder.put_uvarint(1);
                self.put(encoder)
            }

            fn take_tagged_nullable(
                decoder: &mut ::wire::Decoder<#lifetime>,
            ) -> ::core::result::Result<::core::option::Option<Self>, ::wire::DecodeError> {
                if decoder.take_uvarint()? == 0 {
                    return ::core::result::Result::Ok(::core::option::Option::None);
                }
                <Self as ::wire::Wire<#lifetime>>::take(decoder).map(::core::option::Option::Some)
            }
        }
    }
}

/// Where the value of a field stands.
#[derive(Clone, Copy)]
enum Place {
    Body,
    Tagged,
}

fn put_body(shape: &Shape) -> TokenStream {
    let body = shape.fields.iter().map(|field| put_field(shape, field));
    let tagged = shape.tagged();
    let present: Vec<Ident> = tagged.iter().map(|(field, _)| format_ident!("has_{}", field.ident)).collect();
    let conditions = tagged.iter().map(|(field, tagged)| {
        let (ident, default, condition) = (&field.ident, default_of(field), tagged.versions.condition());
        quote!(#condition && ::wire::derived::differs(&self.#ident, &#default))
    });
    let writes = tagged.iter().zip(&present).map(|((field, tagged), present)| {
        let (path, tag, put) = (path_of(shape, field), tagged.tag, put_value(field, Place::Tagged));
        quote! {
            if #present {
                encoder.put_tagged(#tag, |encoder| #put).map_err(|error| error.in_field(#path))?;
            }
        }
    });
    quote! {
        let version = encoder.version();
        #(#body)*
        if encoder.is_flexible() {
            #(let #present = #conditions;)*
            encoder.put_uvarint(0 #(+ u32::from(#present))*);
            #(#writes)*
        }
        let _ = version;
        ::core::result::Result::Ok(())
    }
}

/// Writes the value itself, as an expression of type `Result<(), EncodeError>`.
fn put_value(field: &FieldShape, place: Place) -> TokenStream {
    let ident = &field.ident;
    match field.nullable {
        None => quote!(::wire::Wire::put(&self.#ident, encoder)),
        Some(nullable) => {
            let nullable = nullable.condition();
            match place {
                Place::Body => quote!(::wire::derived::put_option(&self.#ident, encoder, #nullable)),
                Place::Tagged => quote!(::wire::derived::put_tagged_option(&self.#ident, encoder, #nullable)),
            }
        }
    }
}

fn put_field(shape: &Shape, field: &FieldShape) -> TokenStream {
    let path = path_of(shape, field);
    let ident = &field.ident;
    let write = in_body(field).map(|condition| {
        let put = put_value(field, Place::Body);
        quote!(if #condition { #put.map_err(|error| error.in_field(#path))?; })
    });
    let refuse = (!field.ignorable && field.versions != Versions::ALL).then(|| {
        let (present, default) = (field.versions.condition(), default_of(field));
        quote! {
            if !(#present) && ::wire::derived::differs(&self.#ident, &#default) {
                return ::core::result::Result::Err(::wire::EncodeError::absent(#path, version));
            }
        }
    });
    quote!(#write #refuse)
}

/// Reads the value from `decoder`, as an expression of type `Result<FieldType, DecodeError>`.
fn take_value(field: &FieldShape, place: Place, decoder: &TokenStream, lifetime: &Lifetime) -> TokenStream {
    let ty = &field.ty;
    match field.nullable {
        None => quote!(<#ty as ::wire::Wire<#lifetime>>::take(#decoder)),
        Some(nullable) => {
            let nullable = nullable.condition();
            match place {
                Place::Body => quote!(::wire::derived::take_option(#decoder, #nullable)),
                Place::Tagged => quote!(::wire::derived::take_tagged_option(#decoder, #nullable)),
            }
        }
    }
}

fn take_body(shape: &Shape) -> TokenStream {
    let (_, lifetime) = names(shape);
    let reads = shape.fields.iter().map(|field| {
        let (ident, ty, path, default) = (&field.ident, &field.ty, path_of(shape, field), default_of(field));
        let mutable = field.tagged.is_some().then(|| quote!(mut));
        let value = in_body(field).map_or_else(
            || default.clone(),
            |condition| {
                let take = take_value(field, Place::Body, &quote!(decoder), &lifetime);
                quote!(if #condition { #take.map_err(|error| error.in_field(#path))? } else { #default })
            },
        );
        quote!(let #mutable #ident: #ty = #value;)
    });
    let tags = shape.tagged().into_iter().map(|(field, tagged)| {
        let (ident, tag, path) = (&field.ident, tagged.tag, path_of(shape, field));
        let condition = tagged.versions.condition();
        let take = take_value(field, Place::Tagged, &quote!(&mut body), &lifetime);
        quote! {
            #tag if #condition => {
                #ident = #take.and_then(|value| body.finish().map(|()| value)).map_err(|error| error.in_field(#path))?;
            }
        }
    });
    let idents = shape.fields.iter().map(|field| &field.ident);
    quote! {
        let version = decoder.version();
        #(#reads)*
        if decoder.is_flexible() {
            for _ in 0..decoder.take_tagged_count()? {
                let (tag, mut body) = decoder.take_tagged()?;
                match tag {
                    #(#tags)*
                    // A tag of a later version: skipped, as KIP-482 asks.
                    _ => body.skip_all(),
                }
            }
        }
        let _ = version;
        ::core::result::Result::Ok(Self { #(#idents),* })
    }
}

fn message_impl(shape: &Shape, message: &MessageShape) -> TokenStream {
    let (ty, lifetime) = names(shape);
    let (name, key) = (&shape.name, &message.key);
    let Versions { first, last } = message.versions;
    let role = if message.reply.is_some() { quote!(Request) } else { quote!(Response) };
    let request = message.reply.as_ref().map(|reply| {
        quote! {
            #[automatically_derived]
            impl<#lifetime> ::wire::Request<#lifetime> for #ty {
                type Reply<'r> = #reply;
            }
        }
    });
    let text = name.to_string();
    quote! {
        #[automatically_derived]
        impl<#lifetime> ::wire::Message<#lifetime> for #ty {
            const NAME: &'static str = #text;
            const KEY: ::wire::ApiKey = ::wire::ApiKey::#key;
            const ROLE: ::wire::Role = ::wire::Role::#role;
            const VERSIONS: ::core::ops::RangeInclusive<i16> = #first..=#last;
        }

        #request
    }
}

fn versioned_impl(shape: &Shape, versioned: &VersionedShape) -> TokenStream {
    let (ty, lifetime) = names(shape);
    let text = shape.name.to_string();
    let Versions { first, last } = versioned.versions;
    let flexible = versioned.flexible.map_or_else(|| quote!(false), Versions::condition);
    quote! {
        #[automatically_derived]
        impl<#lifetime> ::wire::Versioned<#lifetime> for #ty {
            const NAME: &'static str = #text;
            const VERSIONS: ::core::ops::RangeInclusive<i16> = #first..=#last;

            fn is_flexible(version: i16) -> bool {
                let _ = version;
                #flexible
            }
        }
    }
}

//! What a struct with `#[derive(Wire)]` says about itself: its fields, their versions, its place in the protocol.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Expr, Fields, GenericArgument, Ident, Lifetime, LitInt, LitStr, PathArguments, Type};

use crate::versions::Versions;

/// A struct of the protocol.
pub struct Shape {
    pub name: Ident,
    /// The struct's lifetime, where it borrows from the frame.
    pub lifetime: Option<Lifetime>,
    /// What the struct is the outermost one of; `None` where it only ever stands inside another.
    pub whole: Option<Whole>,
    pub fields: Vec<FieldShape>,
}

/// Something that is read and written by itself.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, while its struct compiles")]
pub enum Whole {
    Message(MessageShape),
    Versioned(VersionedShape),
}

/// The outermost struct of a request or a response.
pub struct MessageShape {
    pub key: Ident,
    pub versions: Versions,
    /// The type of the reply, named with the lifetime `'r`, where this is a request.
    pub reply: Option<Type>,
}

/// The outermost struct of what has its version in front in place of a header.
pub struct VersionedShape {
    pub versions: Versions,
    /// The versions with compact lengths and tagged fields, where there are any.
    pub flexible: Option<Versions>,
}

pub struct FieldShape {
    pub ident: Ident,
    pub ty: Type,
    pub versions: Versions,
    /// The versions in which the field may be null; the type is then an `Option`.
    pub nullable: Option<Versions>,
    pub tagged: Option<Tagged>,
    pub default: Option<Expr>,
    /// May be dropped without an error where the version has no such field.
    pub ignorable: bool,
}

/// A field that stands among the tagged fields in `versions`.
pub struct Tagged {
    pub tag: u32,
    pub versions: Versions,
}

impl Shape {
    pub fn parse(input: DeriveInput) -> syn::Result<Self> {
        let span = input.span();
        let Data::Struct(data) = input.data else {
            return Err(syn::Error::new(span, "only a struct has a wire format"));
        };
        let Fields::Named(named) = data.fields else {
            return Err(syn::Error::new(span, "a struct of the protocol names its fields"));
        };
        let mut lifetimes = input.generics.lifetimes().map(|parameter| parameter.lifetime.clone());
        let lifetime = lifetimes.next();
        if lifetimes.next().is_some() || input.generics.params.len() > usize::from(lifetime.is_some()) {
            return Err(syn::Error::new(
                span,
                "a struct of the protocol has at most one parameter, the frame's lifetime",
            ));
        }
        let whole = Whole::parse(&input.attrs, span)?;
        let fields = named.named.into_iter().map(FieldShape::parse).collect::<syn::Result<Vec<_>>>()?;
        check_tags(&fields)?;
        Ok(Self { name: input.ident, lifetime, whole, fields })
    }

    /// The fields of which some versions carry a tag, in the order of their tags.
    pub fn tagged(&self) -> Vec<(&FieldShape, &Tagged)> {
        let mut tagged: Vec<_> =
            self.fields.iter().filter_map(|field| field.tagged.as_ref().map(|tagged| (field, tagged))).collect();
        tagged.sort_by_key(|(_, tagged)| tagged.tag);
        tagged
    }
}

fn check_tags(fields: &[FieldShape]) -> syn::Result<()> {
    let mut seen = Vec::new();
    for field in fields {
        let Some(tagged) = &field.tagged else { continue };
        if !field.versions.contains(tagged.versions) {
            return Err(syn::Error::new(field.ident.span(), "tagged in a version that has no such field"));
        }
        if seen.contains(&tagged.tag) {
            return Err(syn::Error::new(field.ident.span(), "two fields of a struct share a tag"));
        }
        seen.push(tagged.tag);
    }
    Ok(())
}

impl Whole {
    /// `None` for a struct that has no `#[wire(...)]` of its own.
    fn parse(attributes: &[syn::Attribute], span: Span) -> syn::Result<Option<Self>> {
        let (mut request, mut response, mut reply, mut versions) = (None, None, None, None);
        let (mut versioned, mut flexible) = (false, None);
        let mut found = false;
        each_setting(attributes, |setting| {
            found = true;
            if setting.path.is_ident("request") {
                request = Some(setting.value()?.parse::<Ident>()?);
            } else if setting.path.is_ident("response") {
                response = Some(setting.value()?.parse::<Ident>()?);
            } else if setting.path.is_ident("reply") {
                reply = Some(setting.value()?.parse::<Type>()?);
            } else if setting.path.is_ident("versioned") {
                versioned = true;
            } else if setting.path.is_ident("versions") {
                versions = Some(Versions::parse(&setting.value()?.parse()?)?);
            } else if setting.path.is_ident("flexible") {
                flexible = Some(Versions::parse(&setting.value()?.parse()?)?);
            } else {
                return Err(setting.error("a struct has: request or response or versioned, versions, reply, flexible"));
            }
            Ok(())
        })?;
        if !found {
            return Ok(None);
        }
        let versions = versions.ok_or_else(|| syn::Error::new(span, "what stands by itself names its versions"))?;
        match (request, response, reply, versioned, flexible) {
            (Some(key), None, Some(reply), false, None) => {
                Ok(Some(Self::Message(MessageShape { key, versions, reply: Some(reply) })))
            }
            (None, Some(key), None, false, None) => {
                Ok(Some(Self::Message(MessageShape { key, versions, reply: None })))
            }
            (None, None, None, true, flexible) => Ok(Some(Self::Versioned(VersionedShape { versions, flexible }))),
            _ => Err(syn::Error::new(
                span,
                "a struct is `request = Key, reply = Type`, or `response = Key`, or `versioned` and perhaps `flexible`",
            )),
        }
    }
}

impl FieldShape {
    fn parse(field: syn::Field) -> syn::Result<Self> {
        let ident = field.ident.expect("the fields of a struct with named fields have names");
        let (mut versions, mut nullable, mut default) = (Versions::ALL, None, None);
        let (mut tag, mut tagged, mut ignorable) = (None, None, false);
        each_setting(&field.attrs, |setting| {
            if setting.path.is_ident("versions") {
                versions = Versions::parse(&setting.value()?.parse()?)?;
            } else if setting.path.is_ident("nullable") {
                nullable = Some(Versions::parse(&setting.value()?.parse()?)?);
            } else if setting.path.is_ident("tag") {
                tag = Some(setting.value()?.parse::<LitInt>()?.base10_parse::<u32>()?);
            } else if setting.path.is_ident("tagged") {
                tagged = Some(Versions::parse(&setting.value()?.parse::<LitStr>()?)?);
            } else if setting.path.is_ident("default") {
                default = Some(setting.value()?.parse::<Expr>()?);
            } else if setting.path.is_ident("ignorable") {
                ignorable = true;
            } else {
                return Err(setting.error("a field has: versions, nullable, tag, tagged, default, ignorable"));
            }
            Ok(())
        })?;
        if nullable.is_some() != is_option(&field.ty) {
            return Err(syn::Error::new(ident.span(), "a field is an `Option` exactly if some version may be null"));
        }
        let tagged = match (tag, tagged) {
            (None, None) => None,
            (Some(tag), range) => Some(Tagged { tag, versions: range.unwrap_or(versions) }),
            (None, Some(_)) => return Err(syn::Error::new(ident.span(), "a tagged field names its tag")),
        };
        Ok(Self { ident, ty: field.ty, versions, nullable, tagged, default, ignorable })
    }

    /// The type on the wire: without the `Option` that stands for null.
    pub fn wire_type(&self) -> &Type {
        match (&self.nullable, option_argument(&self.ty)) {
            (Some(_), Some(inner)) => inner,
            _ => &self.ty,
        }
    }
}

fn each_setting(
    attributes: &[syn::Attribute],
    mut take: impl FnMut(ParseNestedMeta<'_>) -> syn::Result<()>,
) -> syn::Result<()> {
    attributes.iter().filter(|one| one.path().is_ident("wire")).try_for_each(|one| one.parse_nested_meta(&mut take))
}

fn is_option(ty: &Type) -> bool {
    option_argument(ty).is_some()
}

fn option_argument(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(inner) if last.ident == "Option" => Some(inner),
        _ => None,
    }
}

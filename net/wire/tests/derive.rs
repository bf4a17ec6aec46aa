//! What the attributes of `#[derive(Wire)]` mean, on structs made for it.

use wire::{Array, DecodeError, DecodeFault, Decoder, EncodeError, EncodeFault, Encoder, Versioned, Wire};

#[derive(Clone, PartialEq, Debug, Wire)]
struct Outer<'a> {
    first: i16,
    #[wire(versions = "2+", default = -1)]
    needed: i16,
    #[wire(versions = "2-3", ignorable)]
    dropped: i16,
    #[wire(nullable = "1+")]
    name: Option<&'a str>,
    #[wire(versions = "2+", tag = 5, tagged = "4+")]
    moved: i16,
    #[wire(versions = "4+", tag = 1, ignorable)]
    inner: Inner,
    #[wire(versions = "3+", nullable = "3+", ignorable)]
    perhaps: Option<Inner>,
    list: Array<'a, Inner>,
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
struct Inner {
    #[wire(default = 7)]
    value: i8,
}

/// The first flexible version of [`Outer`].
const FLEXIBLE: i16 = 4;

fn encode(value: &Outer<'_>, version: i16) -> Result<Vec<u8>, EncodeError> {
    let mut encoder = Encoder::new();
    encoder.set_version(version, version >= FLEXIBLE);
    value.put(&mut encoder)?;
    Ok(encoder.bytes().to_vec())
}

fn decode(bytes: &[u8], version: i16) -> Result<Outer<'_>, DecodeError> {
    let mut decoder = Decoder::new(bytes);
    decoder.set_version(version, version >= FLEXIBLE);
    let value = Outer::take(&mut decoder)?;
    decoder.finish()?;
    Ok(value)
}

fn named() -> Outer<'static> {
    Outer { name: Some("n"), ..Default::default() }
}

/// The value's bytes are these, and these are the value again.
fn check(value: &Outer<'_>, version: i16, bytes: &[u8]) {
    assert_eq!(encode(value, version).as_deref(), Ok(bytes), "version {version}");
    assert_eq!(decode(bytes, version).as_ref(), Ok(value), "version {version}");
}

#[test]
fn fields_come_and_go_with_the_version() {
    let list = [Inner { value: 1 }, Inner { value: 2 }];
    let value = Outer { first: 9, list: (&list).into(), ..named() };
    check(&value, 0, b"\0\x09\0\x01n\0\0\0\x02\x01\x02");
    let value = Outer { needed: 3, dropped: 4, moved: 5, ..named() };
    check(&value, 2, b"\0\0\0\x03\0\x04\0\x01n\0\x05\0\0\0\0");
    let value = Outer { name: None, perhaps: Some(Inner { value: 8 }), ..named() };
    check(&value, 3, b"\0\0\xff\xff\0\0\xff\xff\0\0\x01\x08\0\0\0\0");
    let value = Outer { name: None, perhaps: None, ..named() };
    check(&value, 3, b"\0\0\xff\xff\0\0\xff\xff\0\0\xff\0\0\0\0");
}

#[test]
fn tagged_fields_stand_in_the_order_of_their_tags_and_only_if_set() {
    let value = Outer { name: None, ..named() };
    check(&value, 4, b"\0\0\xff\xff\x00\xff\x01\x00");
    let value = Outer { moved: 6, inner: Inner { value: 9 }, ..named() };
    // Tag 1 holds the inner struct: one byte, and no tagged fields of its own.
    check(&value, 4, b"\0\0\xff\xff\x02n\xff\x01\x02\x01\x02\x09\x00\x05\x02\0\x06");
}

#[test]
fn tags_of_a_later_version_are_passed_over() {
    let bytes = b"\0\0\xff\xff\x02n\xff\x01\x03\x03\x02ab\x05\x02\0\x06\x63\x00";
    assert_eq!(decode(bytes, 4), Ok(Outer { moved: 6, ..named() }));
}

#[test]
fn a_value_that_the_version_cannot_carry_is_refused_unless_ignorable() {
    let absent = |field, version| Err(EncodeError { field, fault: EncodeFault::Absent { version } });
    let null = |field| Err(EncodeError { field, fault: EncodeFault::Null });
    let table = [
        (Outer { needed: 3, ..named() }, 1, absent("Outer.needed", 1)),
        (Outer { moved: 3, ..named() }, 0, absent("Outer.moved", 0)),
        (Outer { name: None, ..named() }, 0, null("Outer.name")),
    ];
    for (value, version, expected) in table {
        assert_eq!(encode(&value, version), expected);
    }
    let ignored = Outer { dropped: 4, inner: Inner { value: 1 }, ..named() };
    assert_eq!(encode(&ignored, 0), encode(&named(), 0));
}

#[test]
fn a_fault_names_the_innermost_field_and_its_place() {
    let fault = |position, field, fault| Err(DecodeError { position, field, fault });
    let table: [(&[u8], i16, _); 7] = [
        (b"\0", 0, fault(0, "Outer.first", DecodeFault::Truncated { needed: 2, left: 1 })),
        (b"\0\0\xff\xff", 0, fault(2, "Outer.name", DecodeFault::Null)),
        (b"\0\0\xff\xfe", 1, fault(2, "Outer.name", DecodeFault::NegativeLength(-2))),
        (b"\0\0\0\x01\xff", 0, fault(4, "Outer.name", DecodeFault::NotUtf8)),
        (b"\0\0\0\0\0\0\0\x02\x01", 0, fault(4, "Outer.list", DecodeFault::CountTooLarge { count: 2, left: 1 })),
        (b"\0\0\0\0\0\0\0\0\x01", 0, fault(8, "", DecodeFault::TrailingBytes(1))),
        // A tagged field that is longer than its value.
        (b"\0\0\xff\xff\x02n\xff\x01\x01\x05\x03\0\x06\0", 4, fault(13, "Outer.moved", DecodeFault::TrailingBytes(1))),
    ];
    for (bytes, version, expected) in table {
        assert_eq!(decode(bytes, version), expected, "{bytes:x?}");
    }
    let mut long = vec![0, 0, 0xff, 0xff, 0x81, 0x80, 0x02];
    long.resize(40_000, b'x');
    assert_eq!(decode(&long, 4), fault(4, "Outer.name", DecodeFault::StringTooLong(32_768)));
}

#[test]
fn an_array_is_the_same_whatever_holds_it() {
    let items = [Inner { value: 1 }, Inner { value: 2 }];
    let bytes = [1, 2];
    let mut decoder = Decoder::new(&bytes);
    let borrowed = Array::Items(&items);
    let owned: Array<'_, Inner> = items.into_iter().collect();
    let mut encoder = Encoder::new();
    borrowed.put(&mut encoder).unwrap();
    let encoded = Array::<Inner>::take(&mut Decoder::new(encoder.bytes())).unwrap();
    assert_eq!((&borrowed, &owned, encoded.len()), (&owned, &encoded, 2));
    assert_eq!(encoded.iter().map(|inner| inner.value).collect::<Vec<_>>(), [1, 2]);
    assert_ne!(encoded, Array::Items(&items[..1]));
    assert_eq!(format!("{encoded:?}"), format!("{items:?}"));
    assert!(Array::<Inner>::take(&mut decoder).is_err());
}

#[derive(Clone, PartialEq, Debug, Wire)]
struct Kinds<'a> {
    truth: bool,
    port: u16,
    quota: f64,
    bytes: &'a [u8],
    #[wire(nullable = "0+")]
    perhaps: Option<&'a [u8]>,
    #[wire(nullable = "0+")]
    numbers: Option<Array<'a, i64>>,
}

#[derive(Clone, PartialEq, Debug, Wire)]
struct Perhaps<'a> {
    #[wire(nullable = "1+", tag = 0, default = Some(Inner::default()))]
    inner: Option<Inner>,
    #[wire(nullable = "1+", tag = 1)]
    list: Option<Array<'a, i8>>,
}

#[test]
fn a_tagged_struct_says_otherwise_than_one_in_the_body_that_it_is_null() {
    let inner = |value| Some(Inner { value });
    let table: [(Perhaps<'_>, i16, &[u8]); 5] = [
        (Perhaps::default(), 1, b"\x00"),
        (Perhaps { inner: None, list: None }, 1, b"\x01\x00\x01\x00"),
        (Perhaps { inner: inner(9), list: None }, 1, b"\x01\x00\x03\x01\x09\x00"),
        (Perhaps { inner: inner(7), list: Some(Array::Items(&[4])) }, 1, b"\x01\x01\x02\x02\x04"),
        // Where it cannot be null nothing says that it is not.
        (Perhaps { inner: inner(9), list: None }, 0, b"\x01\x00\x02\x09\x00"),
    ];
    for (value, version, bytes) in table {
        let mut encoder = Encoder::new();
        encoder.set_version(version, true);
        value.put(&mut encoder).unwrap();
        assert_eq!(encoder.bytes(), bytes, "{value:?}");
        let mut decoder = Decoder::new(bytes);
        decoder.set_version(version, true);
        assert_eq!(Perhaps::take(&mut decoder), Ok(value));
    }
    let mut encoder = Encoder::new();
    encoder.set_version(0, true);
    let null = Perhaps { inner: None, list: None }.put(&mut encoder);
    assert_eq!(null, Err(EncodeError { field: "Perhaps.inner", fault: EncodeFault::Null }));
}

#[test]
fn each_kind_of_value_has_its_bytes() {
    let value = Kinds { truth: true, port: 65_535, quota: 1.5, bytes: b"ab", perhaps: None, numbers: None };
    let full = Kinds { perhaps: Some(b""), numbers: Some([-1].into_iter().collect()), ..value.clone() };
    let table: [(_, bool, &[u8]); 3] = [
        (&value, false, b"\x01\xff\xff\x3f\xf8\0\0\0\0\0\0\0\0\0\x02ab\xff\xff\xff\xff\xff\xff\xff\xff"),
        (&value, true, b"\x01\xff\xff\x3f\xf8\0\0\0\0\0\0\x03ab\0\0\0"),
        (&full, true, b"\x01\xff\xff\x3f\xf8\0\0\0\0\0\0\x03ab\x01\x02\xff\xff\xff\xff\xff\xff\xff\xff\0"),
    ];
    for (value, flexible, bytes) in table {
        let mut encoder = Encoder::new();
        encoder.set_version(0, flexible);
        value.put(&mut encoder).unwrap();
        assert_eq!(encoder.bytes(), bytes);
        let mut decoder = Decoder::new(bytes);
        decoder.set_version(0, flexible);
        assert_eq!(Kinds::take(&mut decoder).as_ref(), Ok(value));
    }
}

#[derive(Clone, Copy, PartialEq, Debug, Wire)]
#[wire(versioned, versions = "1-3", flexible = "3+")]
struct Dated<'a> {
    name: &'a str,
    #[wire(versions = "2+", ignorable)]
    age: i8,
}

#[test]
fn a_versioned_struct_has_its_version_in_front() {
    let table: [(i16, &[u8]); 3] = [(1, b"\0\x01\0\x01n"), (2, b"\0\x02\0\x01n\x07"), (3, b"\0\x03\x02n\x07\0")];
    for (version, bytes) in table {
        let age = if version < 2 { 0 } else { 7 };
        assert_eq!(Dated { name: "n", age: 7 }.to_bytes(version).as_deref(), Ok(bytes));
        assert_eq!(Dated::from_bytes(bytes), Ok(Dated { name: "n", age }));
    }
    assert_eq!((Dated::NAME, Dated::VERSIONS), ("Dated", 1..=3));
    for version in [0, 4] {
        let fault = EncodeFault::UnsupportedVersion { name: "Dated", version };
        assert_eq!(Dated::default().to_bytes(version), Err(EncodeError { field: "", fault }));
        let bytes = version.to_be_bytes();
        let fault = DecodeFault::UnsupportedVersion { name: "Dated", version };
        assert_eq!(Dated::from_bytes(&bytes), Err(DecodeError { position: 2, field: "", fault }));
    }
    let truncated = DecodeFault::Truncated { needed: 2, left: 1 };
    assert_eq!(Dated::from_bytes(b"\0"), Err(DecodeError { position: 0, field: "Dated", fault: truncated }));
}

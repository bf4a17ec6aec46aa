//! Text in and out: `KEY=VALUE`, points in time, bytes that may or may not be text. Pure.

use base::WallTime;

/// `KEY=VALUE`, for clap.
///
/// # Errors
/// There is no `=`, or nothing before it.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// Bytes as one line of a table: text as it is, with control characters and what is not UTF-8 escaped.
#[must_use]
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                character if character.is_control() => out.extend(character.escape_default()),
                character => out.push(character),
            }
        }
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    }
    out
}

/// Base64 with padding (RFC 4648, section 4).
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * place) & 63) as usize];
            out.push(if place > group.len() { '=' } else { char::from(digit) });
        }
    }
    out
}

/// A number of bytes with three digits or so, as in 1.5 GiB.
#[must_use]
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let (mut tenths, mut unit) = (u128::from(count) * 10, None);
    while tenths >= 10_240 && unit != Some(UNITS.len() - 1) {
        tenths /= 1024;
        unit = Some(unit.map_or(0, |unit| unit + 1));
    }
    match unit {
        None => format!("{count} B"),
        Some(unit) => format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]),
    }
}

const MS_PER_DAY: i64 = 86_400_000;

/// A point in time as RFC 3339 in UTC, with milliseconds; the bare number where it lies outside the years 0 to 9999.
#[must_use]
pub fn rfc3339(at: WallTime) -> String {
    let (days, ms) = (at.0.div_euclid(MS_PER_DAY), at.0.rem_euclid(MS_PER_DAY));
    let (year, month, day) = civil_from_days(days);
    if !(0..=9999).contains(&year) {
        return at.0.to_string();
    }
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms % 1000)
}

/// Reads RFC 3339: `2026-07-31T12:00:00Z`, with a fraction or an offset if wanted; a fraction of a millisecond is cut off.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<WallTime> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    };
    let mark = |at: usize, marks: &[u8]| bytes.get(at).is_some_and(|byte| marks.contains(byte));
    let marked = mark(4, b"-") && mark(7, b"-") && mark(10, b"Tt ") && mark(13, b":") && mark(16, b":");
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let in_range = (1..=12).contains(&month) && hour < 24 && minute < 60 && second <= 60;
    if !marked || !in_range || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let (fraction_ms, zone) = match text.get(19..)?.strip_prefix('.') {
        None => (0, text.get(19..)?),
        Some(rest) => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let ms: String = rest[..digits].chars().chain("00".chars()).take(3).collect();
            (if digits == 0 { None } else { ms.parse().ok() }?, &rest[digits..])
        }
    };
    let offset_minutes = zone_minutes(zone)?;
    let seconds = (hour * 60 + minute - offset_minutes) * 60 + second;
    Some(WallTime(days_from_civil(year, month, day) * MS_PER_DAY + seconds * 1000 + fraction_ms))
}

fn zone_minutes(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let (sign, rest) = match zone.as_bytes().first()? {
        b'+' => (1, &zone[1..]),
        b'-' => (-1, &zone[1..]),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two = |digits: &str| -> Option<i64> {
        let exact = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        exact.then(|| digits.parse().ok()).flatten()
    };
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar, counted in eras of 400 years that begin in March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        // text, milliseconds, as written
        let table = [
            ("1970-01-01T00:00:00Z", 0, "1970-01-01T00:00:00.000Z"),
            ("2000-02-29T23:59:59.5Z", 951_868_799_500, "2000-02-29T23:59:59.500Z"),
            ("2026-07-31T12:00:00+02:00", 1_785_492_000_000, "2026-07-31T10:00:00.000Z"),
            ("1969-12-31 23:59:59.999999z", -1, "1969-12-31T23:59:59.999Z"),
            ("0001-01-01T00:00:00-23:59", -62_135_510_460_000, "0001-01-01T23:59:00.000Z"),
        ];
        for (text, ms, written) in table {
            assert_eq!(parse_rfc3339(text), Some(WallTime(ms)), "{text}");
            assert_eq!(rfc3339(WallTime(ms)), written);
        }
        for day in (-800_000..800_000).step_by(37) {
            let (year, month, day_of_month) = civil_from_days(day);
            assert_eq!(days_from_civil(year, month, day_of_month), day);
        }
        assert_eq!(rfc3339(WallTime(i64::MAX)), i64::MAX.to_string());
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2026-07-31",
            "2026-07-31T12:00:00",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+2:00",
            "2026-01-01T00:00:00Zé",
            "2026-01-0éT00:00:00Z",
            "+026-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn bytes_become_text() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"\xff\xfe", "//4="),
        ] {
            assert_eq!(base64(bytes), text);
        }
        assert_eq!(escaped("a\tb\\ü".as_bytes()), "a\\tb\\\\ü");
        assert_eq!(escaped(b"\xff\n\x00"), "\\xff\\n\\u{0}");
    }

    #[test]
    fn sizes_are_shown_in_their_unit() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1023.9 KiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn settings_have_a_name_and_a_value() {
        assert_eq!(key_value("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(key_value("a="), Ok(("a".to_owned(), String::new())));
        assert!(key_value("a").is_err() && key_value("=b").is_err());
    }
}

//! Figures as people read them. Pure.

/// A whole number with a comma between its thousands.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A rate: whole from 100 on, with three digits below.
#[must_use]
pub fn rate(per_second: f64) -> String {
    if per_second >= 99.95 || per_second == 0.0 {
        return count(per_second.round() as u64);
    }
    digits(per_second)
}

/// Three digits of a number below a thousand: `1.23`, `12.3`, `123`.
#[must_use]
pub fn digits(number: f64) -> String {
    let places = match number.abs() {
        below if below < 9.995 => 2,
        below if below < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.places$}")
}

/// A time, given in microseconds, in the unit that leaves it three digits.
#[must_use]
pub fn time_us(us: f64) -> String {
    let (scaled, unit) = match us {
        us if us < 999.5 => (us, "µs"),
        us if us < 999_500.0 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    format!("{} {unit}", digits(scaled))
}

/// A time, given in milliseconds.
#[must_use]
pub fn time_ms(ms: f64) -> String {
    time_us(ms * 1e3)
}

/// A number of bytes: `24.7 GB` (10^9).
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let scales = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let bytes = bytes as f64;
    match scales.iter().find(|(scale, _)| bytes >= *scale) {
        Some((scale, unit)) => format!("{} {unit}", digits(bytes / scale)),
        None => format!("{bytes} B"),
    }
}

/// A share, given as a part of 1.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// A point in time, in milliseconds since 1970, as `2026-07-31 12:00:00 UTC`.
#[must_use]
pub fn utc(ms: u64) -> String {
    let seconds = ms / 1000;
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{:02}-{:02} {hour:02}:{minute:02}:{second:02} UTC", month + 1, days + 1)
}

/// Rows with columns as wide as their widest cell; the first column is text, the others are figures and stand to the right.
#[must_use]
pub fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// Text as it stands in HTML, in an attribute too.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            character => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_their_unit() {
        for (us, text) in [
            (0.0, "0.00 µs"),
            (0.85, "0.85 µs"),
            (9.996, "10.0 µs"),
            (123.4, "123 µs"),
            (999.6, "1.00 ms"),
            (12_345.0, "12.3 ms"),
            (999_600.0, "1.00 s"),
            (2_300_000.0, "2.30 s"),
        ] {
            assert_eq!(time_us(us), text);
        }
        for (per_second, text) in [(0.0, "0"), (1.5, "1.50"), (99.96, "100"), (1_234_567.4, "1,234,567")] {
            assert_eq!(rate(per_second), text);
        }
        assert_eq!((bytes(999), bytes(25_276_502_016)), ("999 B".into(), "25.3 GB".into()));
        assert_eq!(percent(0.1234), "12.3 %");
        assert_eq!(
            (count(0), count(999), count(1000), count(1_000_000)),
            ("0".into(), "999".into(), "1,000".into(), "1,000,000".into())
        );
    }

    #[test]
    fn times_of_day_follow_the_calendar() {
        for (ms, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_868_799_500, "2000-02-29 23:59:59 UTC"),
            (1_785_492_000_000, "2026-07-31 10:00:00 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(ms), text);
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".into(), "10 µs".into(), String::new()], vec!["long".into(), "5 µs".into(), "x".into()]];
        assert_eq!(aligned(&rows), ["a     10 µs", "long   5 µs  x"]);
    }
}

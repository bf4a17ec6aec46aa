//! Regular expressions that members subscribe with: RE2's syntax, matched against whole names.
//!
//! The `regex` crate is of RE2's family: it takes linear time and has the same syntax, but for quotation (`\Q…\E`), which is rewritten here, and
//! for what only newer members of the family give a meaning in classes (`[a&&b]`, `[[a]b]`), which topic names have no use for.

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};

use crate::coordinator::topics::Topics;

/// Bytes of a compiled expression: far beyond what names of topics need, and small enough for each group to have some.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// The expression, which a whole name must match.
///
/// # Errors
/// What is wrong with it, in one line.
pub fn compile(expression: &str) -> Result<Regex, String> {
    let parse = |expression: &str| {
        RegexBuilder::new(expression)
            .size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|error| one_line(&error.to_string()))
    };
    let expression = without_quotation(expression);
    // By itself first: brackets of the expression must not match with those around it.
    parse(&expression)?;
    parse(&format!("^(?:{expression})$"))
}

/// The topics whose names match.
#[must_use]
pub fn matching(expression: &str, topics: &dyn Topics) -> BTreeSet<String> {
    match compile(expression) {
        Ok(regex) => topics.names().filter(|name| regex.is_match(name)).map(str::to_owned).collect(),
        // Members are asked for valid ones; a log may have another.
        Err(_) => BTreeSet::new(),
    }
}

/// The same with each text between `\Q` and `\E`, or the end, escaped.
fn without_quotation(expression: &str) -> String {
    let mut rewritten = String::with_capacity(expression.len());
    let mut rest = expression;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        rewritten.push_str(before);
        if let Some(quoted) = escape.strip_prefix("\\Q") {
            let (quoted, after) = quoted.split_once("\\E").unwrap_or((quoted, ""));
            rewritten.push_str(&regex::escape(quoted));
            rest = after;
        } else {
            let length = 1 + escape[1..].chars().next().map_or(0, char::len_utf8);
            rewritten.push_str(&escape[..length]);
            rest = &escape[length..];
        }
    }
    rewritten + rest
}

/// The parser draws where the error is over several lines; its last says what it is.
fn one_line(error: &str) -> String {
    let last = error.lines().rfind(|line| !line.trim().is_empty()).unwrap_or(error);
    last.trim().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::compile;

    #[test]
    fn whole_names_match() {
        for (expression, name, expected) in [
            ("orders", "orders", true),
            ("orders", "orders-eu", false),
            ("order", "orders", false),
            ("orders.*", "orders-eu", true),
            ("a|b", "b", true),
            ("a|b", "ab", false),
            ("^orders$", "orders", true),
            ("(?i)ORDERS", "orders", true),
            (r"\Qa.b\E.*", "a.b-1", true),
            (r"\Qa.b\E.*", "axb-1", false),
            (r"\Qa.b", "a.b", true),
            (r"a\\Qb", r"a\Qb", true),
            (r"[a-c]\d{2}", "b07", true),
            ("(?P<region>eu|us)-.+", "eu-1", true),
            ("[[:alpha:]]+", "abc", true),
            ("", "", true),
        ] {
            let regex = compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
            assert_eq!(regex.is_match(name), expected, "{expression} on {name}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        // What RE2 has not, either: references back, and looking around.
        for expression in ["[", "a)(b", "*", r"(a)\1", "(?=a)", "(?<!a)b", "a{1000}{1000}"] {
            let error = compile(expression).expect_err(expression);
            assert!(!error.is_empty() && !error.contains('\n'), "{expression}: {error}");
        }
    }
}

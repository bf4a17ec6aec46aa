//! What a decoded message looks like, without its types: read from its `Debug` text.
//!
//! Pure. `Debug` is the one view that every message has of all its fields, in their order; a tree of it can be walked without a line of
//! code for each of the messages.

use std::fmt;

/// A value of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tree {
    /// Fields with their names, in order.
    Struct(Vec<(String, Tree)>),
    List(Vec<Tree>),
    Text(String),
    /// A number, a name of an enum, an id.
    Atom(String),
    /// `None` of an option.
    Null,
}

/// Text that no derived `Debug` writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotDebug {
    pub at: usize,
    pub near: String,
}

impl fmt::Display for NotDebug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no value at byte {} of a Debug text, near {:?}", self.at, self.near)
    }
}

impl std::error::Error for NotDebug {}

impl Tree {
    /// Reads the text that `{:?}` writes. Names of structs are dropped; `Some(x)` and newtypes are what is in them.
    ///
    /// # Errors
    /// Text of another form.
    pub fn parse(debug: &str) -> Result<Self, NotDebug> {
        let mut reader = Reader { text: debug, at: 0 };
        let tree = reader.value()?;
        reader.skip_blanks();
        if reader.at == debug.len() { Ok(tree) } else { Err(reader.fail()) }
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn fail(&self) -> NotDebug {
        NotDebug { at: self.at, near: self.rest().chars().take(40).collect() }
    }

    fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Passes over `token` if it comes next.
    fn passes(&mut self, token: &str) -> bool {
        self.skip_blanks();
        let passes = self.rest().starts_with(token);
        self.at += if passes { token.len() } else { 0 };
        passes
    }

    fn word(&mut self) -> String {
        self.skip_blanks();
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+');
        let end = self.rest().find(|c| !is_word(c)).unwrap_or(self.rest().len());
        let word = self.rest()[..end].to_owned();
        self.at += end;
        word
    }

    fn value(&mut self) -> Result<Tree, NotDebug> {
        self.skip_blanks();
        if self.passes("[") {
            return self.items("]").map(Tree::List);
        }
        if self.rest().starts_with('"') {
            return self.text().map(Tree::Text);
        }
        let word = self.word();
        if word.is_empty() {
            return Err(self.fail());
        }
        if self.passes("{") {
            return self.fields().map(Tree::Struct);
        }
        if self.passes("(") {
            let mut items = self.items(")")?;
            return match (items.pop(), items.is_empty()) {
                (Some(only), true) => Ok(only),
                _ => Err(self.fail()),
            };
        }
        Ok(Tree::Atom(word))
    }

    fn items(&mut self, close: &str) -> Result<Vec<Tree>, NotDebug> {
        let mut items = Vec::new();
        while !self.passes(close) {
            items.push(self.value()?);
            self.passes(",");
        }
        Ok(items)
    }

    fn fields(&mut self) -> Result<Vec<(String, Tree)>, NotDebug> {
        let mut fields = Vec::new();
        while !self.passes("}") {
            let name = self.word();
            if name.is_empty() || !self.passes(":") {
                return Err(self.fail());
            }
            let value = match self.value()? {
                // An error code that says "none" is a code; anything else that is `None` is not there.
                Tree::Atom(atom) if atom == "None" && !name.ends_with("error_code") => Tree::Null,
                value => value,
            };
            fields.push((name, value));
            self.passes(",");
        }
        Ok(fields)
    }

    /// A string with the escapes of `char::escape_debug`.
    fn text(&mut self) -> Result<String, NotDebug> {
        let mut text = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += at + 1;
                    return Ok(text);
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, '0')) => text.push('\0'),
                    Some((_, 'u')) => {
                        let digits: String = chars.by_ref().skip(1).map(|(_, c)| c).take_while(|c| *c != '}').collect();
                        let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                        text.push(code.ok_or_else(|| self.fail())?);
                    }
                    Some((_, other)) => text.push(other),
                    None => return Err(self.fail()),
                },
                other => text.push(other),
            }
        }
        Err(self.fail())
    }
}

#[cfg(test)]
mod tests {
    use super::Tree;
    use base::{Offset, Uuid};
    use wire::ErrorCode;

    #[derive(Debug)]
    #[expect(dead_code, reason = "read through Debug")]
    struct Sample<'a> {
        error_code: ErrorCode,
        name: Option<&'a str>,
        cursor: Option<&'a str>,
        id: Uuid,
        offsets: Vec<Offset>,
        ratio: f64,
    }

    #[test]
    fn what_debug_writes_is_read_back() {
        let sample = Sample {
            error_code: ErrorCode::None,
            name: Some("a \"b\"\n\u{7f}, c"),
            cursor: None,
            id: Uuid::ZERO,
            offsets: vec![Offset(-1), Offset(2)],
            ratio: -0.5,
        };
        let atom = |text: &str| Tree::Atom(text.to_owned());
        let expected = [
            ("error_code", atom("None")),
            ("name", Tree::Text("a \"b\"\n\u{7f}, c".to_owned())),
            ("cursor", Tree::Null),
            ("id", atom("AAAAAAAAAAAAAAAAAAAAAA")),
            ("offsets", Tree::List(vec![atom("-1"), atom("2")])),
            ("ratio", atom("-0.5")),
        ];
        let expected = expected.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        assert_eq!(Tree::parse(&format!("{sample:?}")), Ok(Tree::Struct(expected)));
        assert_eq!(Tree::parse(&format!("{sample:#?}")), Tree::parse(&format!("{sample:?}")), "pretty or not");
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "{", "X {", "X { a }", "[1, ", "\"open", "X(1, 2)", "1 2"] {
            assert!(Tree::parse(text).is_err(), "{text:?}");
        }
    }
}

//! Divides a script's SQL into statements and finds the `:variables` in them. It recognises only the parts of SQL that
//! this needs.
//!
//! It ignores variables in strings, quoted names, comments and dollar-quoted bodies, and after `::`. A statement ends
//! at a ';' outside of these. A statement that creates a trigger with BEGIN ends at the ';' after END (as in
//! sqlite3_complete).

use super::error::{Fault, shown};

/// One statement: its parameters, and the parts of its text between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sql {
    /// The texts before, between and after the parameters: one text more than there are parameters.
    texts: Vec<String>,
    /// For each parameter the slot of its variable.
    pub(super) slots: Vec<usize>,
    /// The line on which the statement begins, counted from one.
    pub line: usize,
    pub(super) control: Control,
    /// For an UPDATE, the number of the first parameter after its WHERE: this parameter and all later ones choose the
    /// rows. None if no parameter chooses them.
    pub(super) row_from: Option<usize>,
}

impl Sql {
    /// Returns the text with an engine's placeholders. `placeholder` returns one for a parameter's number, counted from
    /// zero.
    pub fn text(&self, mut placeholder: impl FnMut(usize) -> String) -> String {
        let mut text = self.texts[0].clone();
        for (index, after) in self.texts[1..].iter().enumerate() {
            text.push_str(&placeholder(index));
            text.push_str(after);
        }
        text
    }

    /// Returns the number of parameters. A variable that occurs twice in the statement is two parameters.
    pub fn parameters(&self) -> usize {
        self.slots.len()
    }
}

/// How a statement affects the session's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    None,
    Begin,
    Commit,
    Rollback,
    /// The statement ends the open transaction and begins the next one.
    Chain,
    Savepoint,
}

/// The position of a scan in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub text: &'a str,
    pub at: usize,
    pub line: usize,
}

impl<'a> Cursor<'a> {
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Moves over `bytes` bytes and counts their lines. Their end must not cut a character.
    pub fn skip(&mut self, bytes: usize) {
        let over = &self.text.as_bytes()[self.at..self.at + bytes];
        self.line += over.iter().filter(|&&byte| byte == b'\n').count();
        self.at += bytes;
    }

    /// Moves over everything up to and including the first `end` after `from` bytes. Returns false when the text has
    /// none.
    fn skip_past(&mut self, from: usize, end: &str) -> bool {
        let Some(found) = self.rest().get(from..).and_then(|rest| rest.find(end)) else { return false };
        self.skip(from + found + end.len());
        true
    }

    /// Moves over blanks and line ends.
    pub fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.skip(rest.len() - rest.trim_start().len());
    }

    /// Returns the rest of the line, without its end.
    pub fn line_text(&self) -> &'a str {
        self.rest().split('\n').next().unwrap_or_default()
    }

    /// Moves over a comment between slash-star and star-slash.
    pub fn skip_block_comment(&mut self) -> Result<(), Fault> {
        if self.skip_past(2, "*/") { Ok(()) } else { Err(Fault::new("this comment has no end", "close it with */")) }
    }
}

/// The words that decide the end of a statement and its effect on its transaction.
#[derive(Default)]
struct Words {
    /// The first six words of the statement, in capitals.
    first: Vec<String>,
    /// The last two tokens, each a word in capitals, ";", or "" before there are two.
    last: [String; 2],
    /// Whether BEGIN has begun a body of several statements.
    has_block: bool,
}

impl Words {
    fn see(&mut self, word: &str) {
        // Cut long words, because no keyword is that long: this limits the cost of malicious texts.
        let word: String = word.chars().take(16).map(|letter| letter.to_ascii_uppercase()).collect();
        self.has_block |= word == "BEGIN";
        if self.first.len() < 6 {
            self.first.push(word.clone());
        }
        self.last = [std::mem::take(&mut self.last[1]), word];
    }

    fn is(&self, index: usize, words: &[&str]) -> bool {
        self.first.get(index).is_some_and(|word| words.contains(&word.as_str()))
    }

    /// Returns true when the next ';' ends the statement. Statements inside a trigger's body end with ';', too; the
    /// trigger ends with "; END ;".
    fn ends_at_semicolon(&self) -> bool {
        let is_trigger = self.is(0, &["CREATE"])
            && (self.is(1, &["TRIGGER"]) || (self.is(1, &["TEMP", "TEMPORARY"]) && self.is(2, &["TRIGGER"])));
        !(is_trigger && self.has_block) || (self.last[0] == ";" && self.last[1] == "END")
    }

    fn control(&self) -> Control {
        let has = |wanted: &str| self.first.iter().any(|word| word == wanted);
        match self.first.first().map(String::as_str) {
            Some("BEGIN") => Control::Begin,
            Some("START") if self.is(1, &["TRANSACTION"]) => Control::Begin,
            Some("COMMIT" | "END" | "ROLLBACK" | "ABORT")
                if self.first.windows(2).any(|two| two == ["AND", "CHAIN"]) =>
            {
                Control::Chain
            }
            Some("COMMIT" | "END") => Control::Commit,
            Some("ROLLBACK" | "ABORT") if !has("TO") => Control::Rollback,
            Some("ROLLBACK" | "SAVEPOINT" | "RELEASE") => Control::Savepoint,
            _ => Control::None,
        }
    }
}

/// A function that returns true at the beginning of a line that belongs to the script and not to SQL.
pub(super) type IsMarker = fn(&str) -> bool;

/// Reads the statement that begins at the cursor. Leaves the cursor after the statement's ';', or before a line that
/// begins a section.
pub(super) fn read_statement(
    cursor: &mut Cursor<'_>,
    is_marker: IsMarker,
    slot_of: &mut dyn FnMut(&str) -> Result<usize, Fault>,
) -> Result<Sql, (usize, Fault)> {
    let first_line = cursor.line;
    let (mut texts, mut slots, mut words) = (Vec::new(), Vec::new(), Words::default());
    let mut text_begin = cursor.at;
    let mut text_end = None;
    let mut before_where = None;
    while text_end.is_none() {
        let (rest, line) = (cursor.rest(), cursor.line);
        let fail = |fault: Fault| (line, fault);
        let Some(&byte) = rest.as_bytes().first() else { break };
        match byte {
            b';' if words.ends_at_semicolon() => {
                text_end = Some(cursor.at);
                cursor.skip(1);
            }
            b';' => {
                words.see(";");
                cursor.skip(1);
            }
            b'\'' | b'"' | b'`' => skip_quoted(cursor, byte).map_err(fail)?,
            b'-' if rest.starts_with("--") => cursor.skip(cursor.line_text().len()),
            b'/' if rest.starts_with("/*") => cursor.skip_block_comment().map_err(fail)?,
            b'$' => skip_dollar_quoted(cursor).map_err(fail)?,
            b':' => {
                let name = variable_name(rest);
                if name.is_empty() {
                    cursor.skip(if rest.starts_with("::") { 2 } else { 1 });
                    continue;
                }
                if slots.len() == MAX_PARAMETERS {
                    let what = format!("this statement has more than {MAX_PARAMETERS} variables");
                    return Err(fail(Fault::new(what, "use several statements")));
                }
                slots.push(slot_of(name).map_err(fail)?);
                texts.push(cursor.text[text_begin..cursor.at].to_owned());
                cursor.skip(1 + name.len());
                text_begin = cursor.at;
            }
            b'\n' => {
                cursor.skip(1);
                let next = cursor.line_text().trim_start();
                if next.starts_with('\\') {
                    let what = format!("the statement begun on line {first_line} has no ';' before this line");
                    return Err((cursor.line, Fault::new(what, "end every statement before a \\set line with ';'")));
                }
                if is_marker(next.trim_end()) {
                    text_end = Some(cursor.at);
                }
            }
            _ if byte.is_ascii_alphabetic() || byte == b'_' => {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len());
                words.see(&rest[..end]);
                if before_where.is_none() && rest[..end].eq_ignore_ascii_case("WHERE") {
                    before_where = Some(slots.len());
                }
                cursor.skip(end);
            }
            _ => cursor.skip(rest.chars().next().map_or(1, char::len_utf8)),
        }
    }
    texts.push(cursor.text[text_begin..text_end.unwrap_or(cursor.at)].trim_end().to_owned());
    let row_from = before_where.filter(|&first| words.is(0, &["UPDATE"]) && first < slots.len());
    Ok(Sql { texts, slots, line: first_line, control: words.control(), row_from })
}

/// Most parameters of one statement; every engine takes as many.
const MAX_PARAMETERS: usize = 999;

/// Returns the variable's name after a ':'; an empty text for `::`, `:=`, array bounds and the like.
fn variable_name(rest: &str) -> &str {
    let after = &rest[1..];
    let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
    if after.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') { &after[..end] } else { "" }
}

/// Moves over a quoted text. Two quotes inside it mean one, on every engine; a backslash has no meaning, as in the
/// standard.
fn skip_quoted(cursor: &mut Cursor<'_>, quote: u8) -> Result<(), Fault> {
    let rest = cursor.rest().as_bytes();
    let mut at = 1;
    while at < rest.len() {
        if rest[at] != quote {
            at += 1;
        } else if rest.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            cursor.skip(at + 1);
            return Ok(());
        }
    }
    let what = format!("the quote in {} has no end", shown(cursor.rest()));
    Err(Fault::new(what, "close it, and double every quote inside quotes, as in 'it''s'"))
}

/// Moves over PostgreSQL's `$tag$ ... $tag$`, or over a '$' that begins no such tag.
fn skip_dollar_quoted(cursor: &mut Cursor<'_>) -> Result<(), Fault> {
    let rest = cursor.rest();
    let tag_end = rest[1..].find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(rest.len(), |end| end + 1);
    let is_tag = rest[tag_end..].starts_with('$') && !rest[1..].starts_with(|c: char| c.is_ascii_digit());
    if !is_tag {
        cursor.skip(1);
        return Ok(());
    }
    let tag = &rest[..=tag_end];
    if cursor.skip_past(tag.len(), tag) {
        return Ok(());
    }
    Err(Fault::new(format!("the text quoted by {} has no end", shown(tag)), "close it with the same tag"))
}

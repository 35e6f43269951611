//! The error of a user's script: file and line, the mistake, and what to write instead.

use std::fmt;

/// An error in a script, found while reading it or while drawing its variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// Name of the script's file, as the user gave it.
    pub source: String,
    /// The script's line with the mistake, counted from one.
    pub line: usize,
    /// The mistake in words, for a message.
    pub what: String,
    /// What to write instead.
    pub hint: String,
}

impl ScriptError {
    /// Returns the place of the mistake as `file:line`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.source, self.line)
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}); {}", self.what, self.place(), self.hint)
    }
}

impl std::error::Error for ScriptError {}

/// The text and the hint of an error. The caller adds the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub what: String,
    pub hint: String,
}

impl Fault {
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Fault { what: what.into(), hint: hint.into() }
    }

    pub fn at(self, source: &str, line: usize) -> ScriptError {
        ScriptError { source: source.to_owned(), line, what: self.what, hint: self.hint }
    }
}

/// Returns the beginning of a piece of the script's text for a message: one line of at most 40 characters.
pub(super) fn shown(text: &str) -> String {
    const LONGEST: usize = 40;
    let line = text.lines().next().unwrap_or_default();
    let mut shown: String = line.chars().take(LONGEST).collect();
    if shown.len() < line.len() {
        shown.push_str("...");
    }
    shown
}

/// Returns the candidate that the user probably meant: it differs from `word` in at most two letters, and in fewer than
/// half of them.
pub(super) fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let close = candidates.into_iter().map(|candidate| (distance(word, candidate), candidate)).min()?;
    (close.0 <= 2 && 2 * close.0 < word.len().max(1)).then_some(close.1)
}

/// Returns the number of letters to insert, remove or replace (Levenshtein's distance). For words of more than 64
/// bytes, which no name here has, it returns a huge number.
pub(super) fn distance(one: &str, other: &str) -> usize {
    const LONGEST: usize = 64;
    if one.len() > LONGEST || other.len() > LONGEST {
        return usize::MAX / 4;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, other_letter) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != other_letter);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

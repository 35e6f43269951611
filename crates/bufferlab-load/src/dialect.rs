//! Dialects are data: SQL text in files, one named section per statement of a workload's catalogue.
//!
//! A section starts with a line `-- name: <statement>` and holds one statement. Nothing here knows an engine.

use std::collections::HashMap;

use bufferlab_workload::client::StatementSpec;

use crate::failure::{Failure, FailureKind};

/// What becomes of the rows that a workload's statements return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowUse {
    /// The workload looks at values: they are kept in the batch, and the catalogue knows how many columns there are.
    Kept,
    /// The workload does not look at them, as with a user's own SQL: rows are fetched and counted, and nothing is kept,
    /// so that a scan of any length needs no memory. The catalogue's `columns` say nothing.
    Counted,
}

/// A workload's catalogue with the texts of one dialect.
#[derive(Clone, Debug)]
pub struct Statements {
    /// Where the texts come from, for messages.
    pub place: String,
    /// The catalogue.
    pub specs: Vec<StatementSpec>,
    /// The text of each statement.
    pub texts: Vec<String>,
    /// What becomes of rows.
    pub rows: RowUse,
}

impl Statements {
    /// A catalogue whose texts stand in a dialect file, with rows that the workload looks at.
    ///
    /// # Errors
    /// As [`texts`].
    pub fn from_file(file: &str, text: &str, catalogue: &[StatementSpec]) -> Result<Self, Failure> {
        let texts = texts(file, text, catalogue)?;
        Ok(Statements { place: file.to_owned(), specs: catalogue.to_vec(), texts, rows: RowUse::Kept })
    }
}

/// Splits a dialect file into (name, text) in file order.
#[must_use]
pub fn sections(text: &str) -> Vec<(String, String)> {
    let mut sections: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("-- name:") {
            sections.push((name.trim().to_owned(), String::new()));
        } else if let Some((_, body)) = sections.last_mut() {
            body.push_str(line);
            body.push('\n');
        }
    }
    sections
}

/// The statements of a dialect's file, whose texts hold no `;` of their own, without its comments, which may.
pub fn statements(sql: &str) -> impl Iterator<Item = String> {
    let code: Vec<&str> = sql.lines().filter(|line| !line.starts_with("--")).collect();
    let statements: Vec<String> = code.join("\n").split(';').map(|statement| statement.trim().to_owned()).collect();
    statements.into_iter().filter(|statement| !statement.is_empty())
}

/// The texts of a catalogue, in its order.
///
/// # Errors
/// When a statement has no text, or a text has no statement: a dialect that has drifted from its workload.
pub fn texts(file: &str, text: &str, catalogue: &[StatementSpec]) -> Result<Vec<String>, Failure> {
    let mut by_name: HashMap<String, String> = sections(text).into_iter().collect();
    let drifted = |what: String| Failure::new(FailureKind::Internal, what, file, "please report this");
    let mut texts = Vec::with_capacity(catalogue.len());
    for spec in catalogue {
        let found = by_name.remove(spec.name.as_ref()).map(|body| body.trim().to_owned());
        texts.push(found.ok_or_else(|| drifted(format!("statement {} has no SQL in this dialect", spec.name)))?);
    }
    match by_name.into_keys().min() {
        Some(name) => Err(drifted(format!("SQL section {name} belongs to no statement of the workload"))),
        None => Ok(texts),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    const CATALOGUE: &[StatementSpec] = &[
        StatementSpec { name: Cow::Borrowed("first"), parameters: 0, columns: 1 },
        StatementSpec { name: Cow::Borrowed("second"), parameters: 1, columns: 0 },
    ];

    #[test]
    fn texts_follow_the_order_of_the_catalogue() {
        let file = "-- A comment before any section.\n-- name: second\nDELETE FROM t\nWHERE x = ?;\n-- name: first\nSELECT 1;\n";
        let texts = texts("here", file, CATALOGUE).expect("both are there");
        assert_eq!(texts, ["SELECT 1;", "DELETE FROM t\nWHERE x = ?;"]);
    }

    #[test]
    fn a_missing_and_a_superfluous_section_are_named() {
        let missing = texts("here", "-- name: first\nSELECT 1", CATALOGUE).expect_err("second is missing");
        assert!(missing.what.contains("second"), "{missing}");
        let file = "-- name: first\n1\n-- name: second\n2\n-- name: third\n3\n";
        let extra = texts("here", file, CATALOGUE).expect_err("third is unknown");
        assert!(extra.what.contains("third"), "{extra}");
    }
}

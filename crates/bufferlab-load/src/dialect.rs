//! Dialects are data: SQL text in files, one named section per statement of a workload's catalogue.
//!
//! A section starts with a line `-- name: <statement>` and holds one statement. Nothing here knows an engine.

use std::collections::HashMap;

use bufferlab_workload::client::StatementSpec;

use crate::failure::{Failure, FailureKind};

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

/// The texts of a catalogue, in its order.
///
/// # Errors
/// When a statement has no text, or a text has no statement: a dialect that has drifted from its workload.
pub fn texts(file: &str, text: &str, catalogue: &[StatementSpec]) -> Result<Vec<String>, Failure> {
    let mut by_name: HashMap<String, String> = sections(text).into_iter().collect();
    let drifted = |what: String| Failure::new(FailureKind::Internal, what, file, "please report this");
    let mut texts = Vec::with_capacity(catalogue.len());
    for spec in catalogue {
        let found = by_name.remove(spec.name).map(|body| body.trim().to_owned());
        texts.push(found.ok_or_else(|| drifted(format!("statement {} has no SQL in this dialect", spec.name)))?);
    }
    match by_name.into_keys().min() {
        Some(name) => Err(drifted(format!("SQL section {name} belongs to no statement of the workload"))),
        None => Ok(texts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CATALOGUE: &[StatementSpec] = &[
        StatementSpec { name: "first", parameters: 0, columns: 1 },
        StatementSpec { name: "second", parameters: 1, columns: 0 },
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

//! Reads dialects: SQL text in files, with a named section for each statement of a workload's catalogue.
//!
//! The files of a workload are in `dialects/<dialect>/<workload>/`. Files that several dialects share are in separate
//! folders, and are written in MySQL's dialect. A section starts with a line `-- name: <statement>` and holds one
//! statement. An engine's [`Dialect`] holds the words in which it differs from the shared files. The code in this file
//! is the same for all engines.

use std::collections::HashMap;

use bufferlab_workload::client::{StatementSpec, Value, Workload};
use bufferlab_workload::plan::Plan;

use crate::failure::{Failure, FailureKind};

/// Every file of `dialects/`: its path in that folder, and its text.
const FILES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/dialects.rs"));

/// Pairs of a text and its replacement. A `%` in the first matches any text, which then takes the place of the `%` in
/// the replacement.
pub type Words = &'static [(&'static str, &'static str)];

/// The SQL of one engine: where its files are, and how its words differ from those of shared files.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The engine's name in messages.
    pub engine: &'static str,
    /// Folders of `dialects/`: the engine's own, then the shared ones. A file comes from the first folder that has it.
    pub folders: &'static [&'static str],
    /// The words that the dialect replaces in shared files.
    pub words: Words,
    /// The plans that the engine can be forced to take, and the words that force each.
    pub plans: &'static [(Plan, Words)],
    /// The reason, for a message, why the engine cannot be forced to take a plan that is not in `plans`.
    pub without: &'static str,
    /// Whether a load builds primary keys after it has inserted the rows, as it does with indexes.
    pub keys_last: bool,
    /// Returns the placeholder of a parameter, counted from zero.
    pub place: fn(usize) -> String,
    /// Returns a day, counted from 1970-01-01, as a literal of SQL.
    pub day: fn(i32) -> String,
    /// Returns a value as a literal of SQL.
    pub literal: fn(Value<'_>) -> String,
}

impl Dialect {
    /// Returns a file of a workload in this dialect, with its path; none if it does not exist.
    pub fn file(&self, workload: &str, name: &str) -> Option<(String, String)> {
        self.folders.iter().enumerate().find_map(|(index, folder)| {
            let path = format!("{folder}/{workload}/{name}");
            let (_, text) = FILES.iter().find(|(file, _)| *file == path)?;
            let text = if index == 0 { (*text).to_owned() } else { reworded(text, self.words) };
            Some((format!("dialects/{path}"), text))
        })
    }

    /// Returns the sections of SQL, name and text, that fill the pool before a workload begins; most workloads have
    /// none.
    pub fn prefill(&self, workload: &dyn Workload) -> Vec<(String, String)> {
        self.file(workload.name(), "prefill.sql").map_or_else(Vec::new, |(_, text)| sections(&text))
    }

    /// Returns a workload's statements, in the order of the workload's catalogue.
    ///
    /// # Errors
    /// When the dialect has no file of the workload's statements, or the file has other statements than the workload. A
    /// usage failure when the engine cannot be forced to take the workload's plan.
    pub fn statements(&self, workload: &mut dyn Workload) -> Result<Statements, Failure> {
        if let Some(own) = workload.own_sql(self.place) {
            let (specs, texts) = own.statements.into_iter().unzip();
            return Ok(Statements { place: own.source, specs, texts, rows: RowUse::Counted });
        }
        let (place, mut text) = self.required(workload.name(), "statements.sql")?;
        if let Some(plan) = workload.forced_plan() {
            text = reworded(&text, self.words_of(plan.asked)?);
        }
        let mut statements = Statements::from_file(&place, &text, workload.statements())?;
        for text in &mut statements.texts {
            let (mut pieces, mut index) = (text.split('?'), 0);
            let first = pieces.next().unwrap_or_default().to_owned();
            *text = pieces.fold(first, |text, piece| {
                index += 1;
                text + &(self.place)(index - 1) + piece
            });
        }
        Ok(statements)
    }

    /// Returns the query of a forced plan with the run's days in place of its parameters, because not every engine can
    /// explain a query with parameters.
    ///
    /// # Errors
    /// The errors of [`Dialect::statements`].
    pub fn with_days(&self, workload: &mut dyn Workload, days: &[i32]) -> Result<String, Failure> {
        let text = self.statements(workload)?.texts.swap_remove(0);
        let days = days.iter().enumerate();
        let text = days.fold(text, |text, (index, &day)| text.replacen(&(self.place)(index), &(self.day)(day), 1));
        Ok(text.trim_end_matches(';').to_owned())
    }

    fn words_of(&self, plan: Plan) -> Result<Words, Failure> {
        let words = self.plans.iter().find(|(known, _)| *known == plan).map(|(_, words)| *words);
        words.ok_or_else(|| {
            let what = format!("{} does not take plan = {}: {}", self.engine, plan.name(), self.without);
            Failure::new(FailureKind::Usage, what, "plan", "choose plan = index_scan or sequential")
        })
    }

    /// Returns a file that a workload must have to run on this engine.
    ///
    /// # Errors
    /// When the file is missing.
    pub fn required(&self, workload: &str, name: &str) -> Result<(String, String), Failure> {
        let what = format!("the workload {workload} has no {name} for {}", self.engine);
        self.file(workload, name)
            .ok_or_else(|| Failure::new(FailureKind::Internal, what, self.folders[0], "please report this"))
    }
}

/// Returns the text with all `words` replaced.
fn reworded(text: &str, words: Words) -> String {
    words.iter().fold(text.to_owned(), |text, (from, to)| {
        let Some((begin, end)) = from.split_once('%') else { return text.replace(from, to) };
        let mut pieces = text.split(begin);
        let first = pieces.next().unwrap_or_default().to_owned();
        pieces.fold(first, |text, piece| match piece.split_once(end) {
            Some((middle, rest)) => text + &to.replace('%', middle) + rest,
            None => text + begin + piece,
        })
    })
}

/// Whether a workload reads the rows that its statements return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowUse {
    /// The workload reads values: the batch keeps them, and the catalogue says how many columns each statement returns.
    Kept,
    /// The workload ignores values, as with a user's own SQL. Clients fetch and count rows and keep none, so that a
    /// scan of any length needs no memory. The catalogue's `columns` are ignored.
    Counted,
}

/// A workload's catalogue with the texts of one dialect.
#[derive(Clone, Debug)]
pub struct Statements {
    /// The source of the texts, for messages.
    pub place: String,
    /// The workload's catalogue of statements.
    pub specs: Vec<StatementSpec>,
    /// The SQL text of each statement, in the order of `specs`.
    pub texts: Vec<String>,
    /// Whether the workload reads rows.
    pub rows: RowUse,
}

impl Statements {
    /// Makes the statements of a catalogue, with texts from a dialect's file, for a workload that reads their rows.
    ///
    /// # Errors
    /// The errors of [`texts`].
    pub fn from_file(file: &str, text: &str, catalogue: &[StatementSpec]) -> Result<Self, Failure> {
        let texts = texts(file, text, catalogue)?;
        Ok(Statements { place: file.to_owned(), specs: catalogue.to_vec(), texts, rows: RowUse::Kept })
    }

    /// Returns the failure of a script's statement that the engine does not prepare, with the engine's message.
    pub fn refused(&self, at: usize, message: String) -> Failure {
        let hint = "correct the statement, or create what it refers to in the script's setup section";
        Failure::new(FailureKind::Usage, message, self.specs[at].name.to_string(), hint)
    }

    /// Checks the numbers of parameters and of columns of a prepared statement. `marks` are the engine's own words for
    /// parameters.
    ///
    /// # Errors
    /// When the numbers differ from the script's parameters, or from the workload's catalogue.
    pub fn check(&self, at: usize, parameters: usize, columns: usize, marks: &str) -> Result<(), Failure> {
        let spec = &self.specs[at];
        if self.rows == RowUse::Counted {
            return check_parameters(parameters, spec.parameters, &spec.name, marks);
        }
        if (parameters, columns) == (spec.parameters, spec.columns) {
            return Ok(());
        }
        let what = format!(
            "statement {} has {parameters} parameters and {columns} columns; the workload says {} and {}",
            spec.name, spec.parameters, spec.columns
        );
        Err(Failure::new(FailureKind::Internal, what, &self.place, "please report this"))
    }
}

/// Checks that a script gives a statement as many parameters as it has.
///
/// # Errors
/// When the numbers differ. `marks` are the engine's own words for parameters.
pub fn check_parameters(parameters: usize, given: usize, place: &str, marks: &str) -> Result<(), Failure> {
    if parameters == given {
        return Ok(());
    }
    let what = format!("this statement has {parameters} parameters, and the script gives it {given}");
    let hint = format!("write every parameter as :name, not as {marks}, and set it with \\set");
    Err(Failure::new(FailureKind::Usage, what, place, hint))
}

/// Returns a value as a literal of standard SQL.
pub fn literal(value: Value<'_>) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Int(int) => int.to_string(),
        Value::Real(real) => format!("{real:?}"),
        Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
    }
}

/// Splits a dialect's file into its sections, as pairs of name and text, in the order of the file.
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

/// Returns the statements of a dialect's file, without its comments. A statement must not contain `;`, but a comment
/// may.
pub fn statements(sql: &str) -> impl Iterator<Item = String> {
    let code: Vec<&str> = sql.lines().filter(|line| !line.starts_with("--")).collect();
    let statements: Vec<String> = code.join("\n").split(';').map(|statement| statement.trim().to_owned()).collect();
    statements.into_iter().filter(|statement| !statement.is_empty())
}

/// Returns the text of each statement of a catalogue, in the order of the catalogue.
///
/// # Errors
/// When a statement has no section in the file, or a section belongs to no statement.
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

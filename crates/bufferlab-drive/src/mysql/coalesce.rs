//! Makes one statement from successive calls of the same statement (a "run" of calls), for the setting `batched`.
//!
//! A template is SQL text with a part that repeats for each call; `dialects/mysql/*/batched.sql` explains its form.
//! This file decides which calls form a run, and shares the answer among the calls. The client sends the statement.

use std::ops::Range;

use bufferlab_workload::client::{Batch, Cells, StatementId, StatementSpec, Value};

use crate::dialect::sections;
use crate::failure::{Failure, FailureKind};

/// Most calls that a client sends as one statement. No transaction of bufferlab's workloads has a longer run, and a
/// small limit lets the client prepare a statement for each number of calls.
const MAX_RUN: usize = 16;

/// The way in which calls share the answer of a coalesced statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The first columns of a row show to which call the row belongs: they equal the call's parameters with these
    /// numbers, counted from zero.
    Key(Vec<usize>),
    /// Each call affects this number of rows. The server returns only the sum over all calls, and the client divides
    /// this sum evenly among the calls. So each call gets the right number if and only if the sum is right.
    Affects(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// A parameter of a call, counted from zero.
    Param(usize),
}

/// The text of one statement for any number of calls.
#[derive(Clone, Debug)]
pub struct Template {
    head: Vec<Piece>,
    unit: Vec<Piece>,
    separator: String,
    tail: Vec<Piece>,
    /// The way in which calls share the answer.
    pub answer: Answer,
}

impl Template {
    fn parse(body: &str) -> Result<Self, String> {
        let (mut answer, mut sql) = (None, String::new());
        for line in body.lines() {
            match line.strip_prefix("--").map(str::trim) {
                Some(comment) => answer = answer_of(comment)?.or(answer),
                None => {
                    sql.push_str(line);
                    sql.push('\n');
                }
            }
        }
        let sql = sql.trim().trim_end_matches(';');
        let parts = || {
            let (head, rest) = sql.split_once('{')?;
            let (repeated, tail) = rest.rsplit_once('}')?;
            let (unit, separator) = repeated.rsplit_once('|')?;
            Some((head, unit, separator, tail))
        };
        let (head, unit, separator, tail) = parts().ok_or("nothing stands in {...|SEPARATOR}")?;
        Ok(Template {
            head: pieces(head)?,
            unit: pieces(unit)?,
            separator: separator.to_owned(),
            tail: pieces(tail)?,
            answer: answer.ok_or("neither `-- key:` nor `-- affects:` is said")?,
        })
    }

    /// Returns the text for `calls` calls, with plain placeholders (`?`).
    pub fn sql(&self, calls: usize) -> String {
        let mut sql = String::new();
        write_pieces(&self.head, &mut sql);
        for call in 0..calls {
            if call > 0 {
                sql.push_str(&self.separator);
            }
            write_pieces(&self.unit, &mut sql);
        }
        write_pieces(&self.tail, &mut sql);
        sql
    }

    /// Returns the parameters in the order of the placeholders, each as its call and its index in the call.
    pub fn params(&self, calls: Range<usize>) -> impl Iterator<Item = (usize, usize)> + Clone {
        let first = calls.start;
        let common = move |pieces| params_of(pieces).map(move |index| (first, index));
        let repeated = calls.flat_map(|call| params_of(&self.unit).map(move |index| (call, index)));
        common(&self.head).chain(repeated).chain(common(&self.tail))
    }

    /// Returns true when these two calls have equal values in every parameter outside of the repeated part.
    fn may_join(&self, batch: &Batch, one: usize, other: usize) -> bool {
        params_of(&self.head)
            .chain(params_of(&self.tail))
            .all(|index| batch.param(one, index) == batch.param(other, index))
    }

    fn largest_param(&self) -> usize {
        let key = match &self.answer {
            Answer::Key(params) => params.as_slice(),
            Answer::Affects(_) => &[],
        };
        [&self.head, &self.unit, &self.tail]
            .into_iter()
            .flat_map(|pieces| params_of(pieces))
            .chain(key.iter().copied())
            .max()
            .unwrap_or(0)
    }
}

fn answer_of(comment: &str) -> Result<Option<Answer>, String> {
    let number = |text: &str| text.trim().parse::<usize>().map_err(|error| format!("{text:?} is no number: {error}"));
    if let Some(list) = comment.strip_prefix("key:") {
        let params: Result<Vec<usize>, String> = list.split(',').map(|text| one_based(number(text)?)).collect();
        return Ok(Some(Answer::Key(params?)));
    }
    if let Some(rows) = comment.strip_prefix("affects:") {
        return Ok(Some(Answer::Affects(number(rows)? as u64)));
    }
    Ok(None)
}

fn one_based(number: usize) -> Result<usize, String> {
    number.checked_sub(1).ok_or_else(|| "parameters are counted from one".to_owned())
}

/// Splits a text at its numbered parameters, `?N`.
fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut parts = text.split('?');
    let mut pieces = vec![Piece::Text(parts.next().unwrap_or_default().to_owned())];
    for part in parts {
        let end = part.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(part.len());
        let (digits, rest) = part.split_at(end);
        let number = digits.parse::<usize>().map_err(|_| format!("`?{part}` has no number of a parameter"))?;
        pieces.push(Piece::Param(one_based(number)?));
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

fn params_of(pieces: &[Piece]) -> impl Iterator<Item = usize> + Clone {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Param(index) => Some(*index),
        Piece::Text(_) => None,
    })
}

fn write_pieces(pieces: &[Piece], sql: &mut String) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => sql.push_str(text),
            Piece::Param(_) => sql.push('?'),
        }
    }
}

/// The templates of a catalogue's statements. The client sends calls of a statement without a template one by one.
#[derive(Clone, Debug, Default)]
pub struct Coalesced {
    templates: Vec<Option<Template>>,
}

impl Coalesced {
    /// Reads the templates in a dialect's file.
    ///
    /// # Errors
    /// When a section belongs to no statement of the catalogue, is not a template, or has more parameters than its
    /// statement.
    pub fn from_file(file: &str, text: &str, catalogue: &[StatementSpec]) -> Result<Self, Failure> {
        let mut templates = vec![None; catalogue.len()];
        for (name, body) in sections(text) {
            let drifted = |what: String| {
                let what = format!("the coalesced statement {name}: {what}");
                Failure::new(FailureKind::Internal, what, file, "please report this")
            };
            let at = catalogue.iter().position(|spec| spec.name == name);
            let at = at.ok_or_else(|| drifted("the workload has no such statement".to_owned()))?;
            let template = Template::parse(&body).map_err(drifted)?;
            if template.largest_param() >= catalogue[at].parameters {
                return Err(drifted(format!("it has {} parameters only", catalogue[at].parameters)));
            }
            templates[at] = Some(template);
        }
        Ok(Coalesced { templates })
    }

    /// Returns the template of a statement, if it has one.
    pub fn template(&self, statement: StatementId) -> Option<&Template> {
        self.templates.get(usize::from(statement.0)).and_then(Option::as_ref)
    }

    /// Returns the end of the longest run of calls from `first` on that a client may send as one. A run has at most 16
    /// successive calls of one statement, with equal values in the parameters outside of the repeated part.
    pub fn run_end(&self, batch: &Batch, first: usize) -> usize {
        let statement = batch.statement(first);
        let Some(template) = self.template(statement) else { return first + 1 };
        let limit = batch.len().min(first + MAX_RUN);
        (first + 1..limit)
            .find(|&call| batch.statement(call) != statement || !template.may_join(batch, first, call))
            .unwrap_or(limit)
    }
}

/// Divides the rows that a coalesced statement affected evenly among its calls, so that each call counts one update if
/// the sum is right. A call's update affects `each` rows.
pub fn share_out(rows: u64, each: u64, calls: Range<usize>, batch: &mut Batch) {
    let (rows, count) = (rows / each.max(1), calls.len() as u64);
    for (place, call) in calls.enumerate() {
        batch.begin_rows(call);
        batch.set_affected(call, rows / count + u64::from((place as u64) < rows % count));
    }
}

/// Gives each call of a coalesced statement its rows. A row has `width` columns, of which the key's columns come first.
/// Calls with equal keys get the same rows. Returns the number of rows that calls got.
pub fn sort_rows(rows: &Cells, width: usize, key: &[usize], calls: Range<usize>, batch: &mut Batch) -> u64 {
    let mut given = 0;
    for call in calls {
        batch.begin_rows(call);
        for row in (0..rows.len()).step_by(width.max(1)) {
            let is_key = |(column, &param): (usize, &usize)| same_int(rows.get(row + column), batch.param(call, param));
            if key.iter().enumerate().all(is_key) {
                (key.len()..width).for_each(|column| batch.push_column(rows.get(row + column)));
                batch.end_row(call);
                given += 1;
            }
        }
    }
    given
}

fn same_int(value: Value<'_>, param: Value<'_>) -> bool {
    matches!((value, param), (Value::Int(value), Value::Int(param)) if value == param)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    const CATALOGUE: &[StatementSpec] = &[
        StatementSpec { name: Cow::Borrowed("read"), parameters: 2, columns: 1 },
        StatementSpec { name: Cow::Borrowed("write"), parameters: 3, columns: 0 },
        StatementSpec { name: Cow::Borrowed("alone"), parameters: 1, columns: 1 },
    ];
    const FILE: &str = "-- name: read\n-- key: 2\nSELECT i, q FROM s WHERE w = ?1 AND i IN ({?2|, }) FOR UPDATE;\n\
        -- name: write\n-- affects: 2\n-- Why it is so, with a ? in it.\nINSERT INTO s VALUES {(?3, ?1, ?2)|, } ON DUPLICATE KEY UPDATE q = 1;";

    fn coalesced() -> Coalesced {
        Coalesced::from_file("here", FILE, CATALOGUE).expect("the file is right")
    }

    #[test]
    fn texts_repeat_what_stands_in_braces() {
        let coalesced = coalesced();
        let read = coalesced.template(StatementId(0)).expect("it has one");
        assert_eq!(read.sql(3), "SELECT i, q FROM s WHERE w = ? AND i IN (?, ?, ?) FOR UPDATE");
        assert_eq!(read.params(4..7).collect::<Vec<_>>(), [(4, 0), (4, 1), (5, 1), (6, 1)]);
        let write = coalesced.template(StatementId(1)).expect("it has one");
        assert_eq!(write.sql(2), "INSERT INTO s VALUES (?, ?, ?), (?, ?, ?) ON DUPLICATE KEY UPDATE q = 1");
        assert_eq!(write.params(0..2).collect::<Vec<_>>(), [(0, 2), (0, 0), (0, 1), (1, 2), (1, 0), (1, 1)]);
        assert_eq!((&read.answer, &write.answer), (&Answer::Key(vec![1]), &Answer::Affects(2)));
    }

    #[test]
    fn a_run_ends_at_another_statement_and_at_another_common_value() {
        let mut batch = Batch::default();
        for (statement, w, i) in [(0, 1, 5), (0, 1, 6), (0, 2, 6), (0, 2, 7), (2, 2, 8), (2, 2, 9)] {
            let params = [Value::Int(w), Value::Int(i)];
            batch.call(StatementId(statement), if statement == 2 { &params[..1] } else { &params });
        }
        let ends: Vec<usize> = (0..batch.len()).map(|first| coalesced().run_end(&batch, first)).collect();
        assert_eq!(ends, [2, 2, 4, 4, 5, 6]);
    }

    #[test]
    fn a_run_is_not_longer_than_may_be_prepared() {
        let mut batch = Batch::default();
        for i in 0..40 {
            batch.call(StatementId(0), &[Value::Int(1), Value::Int(i)]);
        }
        assert_eq!((coalesced().run_end(&batch, 0), coalesced().run_end(&batch, 32)), (16, 40));
    }

    #[test]
    fn a_dialect_that_has_drifted_is_refused_with_the_statement() {
        let refused = |file: &str| Coalesced::from_file("here", file, CATALOGUE).expect_err("it has drifted").what;
        assert!(refused("-- name: gone\n-- key: 1\nSELECT {?1|,}").contains("gone"));
        assert!(refused("-- name: read\nSELECT {?1|,}").contains("neither"));
        assert!(refused("-- name: read\n-- key: 1\nSELECT ?1").contains("SEPARATOR"));
        assert!(refused("-- name: read\n-- key: 3\nSELECT {?1|,}").contains("2 parameters"));
        assert!(refused("-- name: read\n-- key: 1\nSELECT {?|,}").contains("no number"));
    }

    #[test]
    fn only_a_right_sum_gives_every_call_its_row() {
        let shares = |rows, each| {
            let mut batch = Batch::default();
            (0..4).for_each(|_| _ = batch.call(StatementId(0), &[]));
            share_out(rows, each, 0..4, &mut batch);
            [0, 1, 2, 3].map(|call| batch.affected(call))
        };
        assert_eq!(shares(4, 1), [1, 1, 1, 1]);
        assert_eq!(shares(8, 2), [1, 1, 1, 1]);
        assert_eq!(shares(3, 1), [1, 1, 1, 0]);
        assert_eq!(shares(7, 2), [1, 1, 1, 0]);
        assert_eq!(shares(42, 1), [11, 11, 10, 10]);
    }

    #[test]
    fn rows_go_to_every_call_with_their_key() {
        let (mut batch, mut rows) = (Batch::default(), Cells::default());
        for item in [7, 5, 7, 9] {
            batch.call(StatementId(0), &[Value::Int(1), Value::Int(item)]);
        }
        for (item, price) in [(5, "five"), (7, "seven"), (8, "eight")] {
            rows.push(Value::Int(item));
            rows.push(Value::Text(price));
        }
        assert_eq!(sort_rows(&rows, 2, &[1], 0..4, &mut batch), 3);
        assert_eq!([0, 1, 2, 3].map(|call| batch.rows(call)), [1, 1, 1, 0]);
        assert_eq!(
            [0, 1, 2].map(|call| format!("{:?}", batch.value(call, 1, 0, 0))),
            ["seven", "five", "seven"].map(|text| format!("Text({text:?})"))
        );
    }
}

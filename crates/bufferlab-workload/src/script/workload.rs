//! Executes a user's script: chooses transactions by weight, draws their variables, executes their statements one by
//! one.
//!
//! Variables do not depend on an engine's answers, so the workload draws them when it plans a transaction; a retry
//! executes the same parameters again. Statements run in autocommit unless the script opens a transaction itself.

use super::NAME;
use super::error::{Fault, ScriptError};
use super::expression::Memory;
use super::number::RunError;
use super::parser::{NUMBER_SLOT, Script, Step};
use super::updates::row_of;
use super::{Number, Sql};
use crate::client::{
    Batch, Client, ClientError, Outcome, OwnSql, Planned, StatementId, StatementSpec, Value, Workload,
};
use crate::random::Random;

/// The number of times that [`Script::check`] draws the variables of every transaction.
const TRIALS: u32 = 3;

/// Bytes of the shortest value that is removed from messages even where it is not quoted. A shorter value could be a
/// part of any word.
const LEAST_HIDDEN: usize = 4;
/// Servers cut long values in messages, PostgreSQL and MySQL to 64 bytes. So beginnings of values are removed from
/// messages too. These are the bytes of the shortest and of the longest such beginning.
const CUT_TO: usize = 8;
const LONGEST_CUT: usize = 512;

/// One statement of the setup section with its parameters' values.
#[derive(Clone, Debug)]
pub struct SetupStatement<'a> {
    /// The statement's text and its parameters' places.
    pub sql: &'a Sql,
    /// The values of the statement's parameters, in order.
    pub values: Vec<Value<'a>>,
}

impl Script {
    /// Draws the variables of every transaction three times, and those of the setup section once, to find expressions
    /// without a value before a run.
    ///
    /// # Errors
    /// When an expression has no value; the error names the first such expression.
    pub fn check(&self) -> Result<(), ScriptError> {
        self.setup()?;
        if self.transactions.is_empty() {
            return Ok(());
        }
        let mut trial = ScriptWorkload::new(self.clone(), 0)?;
        for transaction in 0..self.transactions.len() {
            for _ in 0..TRIALS {
                trial.draw(transaction);
                if let Some((line, error)) = trial.failed.take() {
                    return Err(run_error(&error).at(&self.source, line));
                }
            }
        }
        Ok(())
    }

    /// Returns the statements of the setup section in order. The section's random variables do not depend on a run's
    /// seed: the same text gives the same data.
    ///
    /// # Errors
    /// When a variable has no value.
    pub fn setup(&self) -> Result<Vec<SetupStatement<'_>>, ScriptError> {
        let mut memory = Memory::new(self.slots.clone(), self.zipf_places);
        let mut random = Random::stream(0, "script/setup", &[]);
        let mut statements = Vec::new();
        for step in &self.setup {
            match step {
                Step::Set { slot, expression, line } => {
                    let value = expression.evaluate(&mut memory, &mut random);
                    memory.slots[*slot] = value.map_err(|error| run_error(&error).at(&self.source, *line))?;
                }
                Step::Execute(index) => {
                    let sql = &self.statements[*index];
                    let values = sql.slots.iter().map(|&slot| memory.slots[slot].value(&self.texts)).collect();
                    statements.push(SetupStatement { sql, values });
                }
            }
        }
        Ok(statements)
    }

    /// Returns an engine's message about a statement, without the statement's values if the script chooses values from
    /// lists (`choose`). Such values may be private data, and the message is kept with the results.
    pub(super) fn without_values(&self, message: String, parameters: &[Number]) -> String {
        let mut steps = self.transactions.iter().flat_map(|transaction| &transaction.steps);
        if !steps.any(|step| matches!(step, Step::Set { expression, .. } if expression.chooses())) {
            return message;
        }
        let texts = parameters.iter().filter_map(|number| match number.value(&self.texts) {
            Value::Int(int) => Some(int.to_string()),
            Value::Real(real) => Some(real.to_string()),
            Value::Text(text) => Some(text.to_owned()),
            Value::Null => None,
        });
        let mut texts: Vec<String> = texts.collect();
        // Replace the longest values first: if a value is a part of another one, the rest of the longer value would
        // stay.
        texts.sort_unstable_by_key(|text| std::cmp::Reverse(text.len()));
        texts.iter().fold(message, |message, text| {
            let message = message.replace(&format!("'{text}'"), "'...'");
            if text.len() < LEAST_HIDDEN {
                return message;
            }
            let message = message.replace(text, "...");
            let ends = (CUT_TO..text.len().min(LONGEST_CUT)).rev().filter(|&end| text.is_char_boundary(end));
            ends.fold(message, |message, end| message.replace(&text[..end], "..."))
        })
    }

    /// Returns the statements of the transactions, in the order of their ids, with the text of each. A statement's name
    /// is its place, `file:line`. Its `columns` are zero, because only the engine knows them.
    pub fn catalogue(&self) -> Vec<(StatementSpec, &Sql)> {
        let transactions = self.transactions.iter().flat_map(|transaction| &transaction.steps);
        let indices = transactions.filter_map(|step| match step {
            Step::Execute(index) => Some(*index),
            Step::Set { .. } => None,
        });
        indices
            .map(|index| {
                let sql = &self.statements[index];
                let name = format!("{}:{}", self.source, sql.line).into();
                (StatementSpec { name, parameters: sql.parameters(), columns: 0 }, sql)
            })
            .collect()
    }
}

fn run_error(error: &RunError) -> Fault {
    Fault::new(error.to_string(), error.hint())
}

/// A script as a stream of transactions for one connection.
#[derive(Debug)]
pub struct ScriptWorkload {
    script: Script,
    /// The id of each transaction's first statement in the catalogue; the ids of its other statements follow.
    first_ids: Vec<u16>,
    /// For each transaction the sum of the weights of all transactions up to and including it.
    weights: Vec<u64>,
    mix: Random,
    draws: Random,
    /// The streams that replace `mix` and `draws` when the measured window begins.
    window: [Random; 2],
    memory: Memory,
    number: i64,
    planned: usize,
    /// Parameters of the planned transaction, one statement after the other.
    parameters: Vec<Number>,
    /// The reason why the planned transaction has no parameters.
    failed: Option<(usize, RunError)>,
    batch: Batch,
}

impl ScriptWorkload {
    /// Makes a workload that executes the transactions of a script, with random numbers from this seed.
    ///
    /// # Errors
    /// When the script has no transaction.
    pub fn new(script: Script, seed: u64) -> Result<Self, ScriptError> {
        if script.transactions.is_empty() {
            let fault =
                Fault::new("this script has a setup section and no transaction", "add \"-- transaction: NAME\"");
            return Err(fault.at(&script.source, 1));
        }
        let mut sum = 0;
        let weights = script.transactions.iter().map(|transaction| {
            sum += u64::from(transaction.weight);
            sum
        });
        let weights = weights.collect();
        let mut next_id = 0;
        let first_ids = script.transactions.iter().map(|transaction| {
            // A script has at most ten thousand steps.
            next_id += transaction.statements as u16;
            next_id - transaction.statements as u16
        });
        let first_ids = first_ids.collect();
        let memory = Memory::new(script.slots.clone(), script.zipf_places);
        Ok(ScriptWorkload {
            first_ids,
            weights,
            mix: Random::stream(seed, "script/mix", &[]),
            draws: Random::stream(seed, "script/variables", &[]),
            window: ["script/mix/window", "script/variables/window"].map(|name| Random::stream(seed, name, &[])),
            memory,
            number: 0,
            planned: 0,
            parameters: Vec::new(),
            failed: None,
            batch: Batch::default(),
            script,
        })
    }

    /// Returns the workload's script.
    pub fn script(&self) -> &Script {
        &self.script
    }

    /// Returns the parameters of the planned transaction, one statement after the other.
    #[cfg(test)]
    pub(super) fn parameters(&self) -> Vec<Value<'_>> {
        self.parameters.iter().map(|number| number.value(&self.script.texts)).collect()
    }

    /// Draws the variables of a transaction, and keeps the parameters of its statements.
    fn draw(&mut self, transaction: usize) {
        self.number += 1;
        self.memory.slots[NUMBER_SLOT] = Number::Int(self.number);
        self.planned = transaction;
        self.parameters.clear();
        self.failed = None;
        for step in &self.script.transactions[transaction].steps {
            match step {
                Step::Set { slot, expression, line } => match expression.evaluate(&mut self.memory, &mut self.draws) {
                    Ok(value) => self.memory.slots[*slot] = value,
                    Err(error) => {
                        self.failed = Some((*line, error));
                        return;
                    }
                },
                Step::Execute(index) => {
                    let slots = self.script.statements[*index].slots.iter();
                    self.parameters.extend(slots.map(|&slot| self.memory.slots[slot]));
                }
            }
        }
    }

    /// Calls `update` for each row that the planned transaction updates, with the row's number by [`row_of`].
    pub(super) fn each_update(&self, mut update: impl FnMut(u64)) {
        if self.failed.is_some() {
            return;
        }
        let mut used = 0;
        for step in &self.script.transactions[self.planned].steps {
            let Step::Execute(index) = step else { continue };
            let sql = &self.script.statements[*index];
            let parameters = &self.parameters[used..used + sql.slots.len()];
            used += sql.slots.len();
            if let Some(from) = sql.row_from {
                update(row_of(*index, &parameters[from..], &self.script.texts));
            }
        }
    }

    fn script_error(&self, line: usize, what: String, hint: &str) -> ClientError {
        ClientError::Script { place: format!("{}:{line}", self.script.source), message: what, hint: hint.to_owned() }
    }
}

impl Workload for ScriptWorkload {
    fn name(&self) -> &'static str {
        NAME
    }

    fn own_sql(&self, place: fn(usize) -> String) -> Option<OwnSql> {
        let catalogue = self.script.catalogue().into_iter();
        let statements = catalogue.map(|(spec, sql)| (spec, sql.text(place))).collect();
        Some(OwnSql { source: self.script.source().to_owned(), statements })
    }

    fn transaction_types(&self) -> Vec<String> {
        self.script.transactions.iter().map(|transaction| transaction.name.clone()).collect()
    }

    fn terminals(&self) -> usize {
        1
    }

    fn plan(&mut self) -> Planned {
        let total = self.weights[self.weights.len() - 1];
        let ticket = self.mix.below(total);
        let transaction = self.weights.partition_point(|&sum| sum <= ticket);
        self.draw(transaction);
        Planned { transaction_type: transaction, terminal: 0 }
    }

    /// Does not reset the variable `transaction_number`, which continues from the warm-up.
    fn begin_window(&mut self) {
        [self.mix, self.draws] = self.window.clone();
    }

    fn execute(&mut self, client: &mut dyn Client) -> Result<Outcome, ClientError> {
        if let Some((line, error)) = &self.failed {
            return Err(self.script_error(*line, error.to_string(), error.hint()));
        }
        let (mut used, mut next_id) = (0, self.first_ids[self.planned]);
        let transaction = &self.script.transactions[self.planned];
        for step in &transaction.steps {
            let Step::Execute(index) = step else { continue };
            let sql = &self.script.statements[*index];
            let parameters = &self.parameters[used..used + sql.slots.len()];
            used += sql.slots.len();
            self.batch.clear();
            self.batch
                .call_with(StatementId(next_id), parameters.iter().map(|number| number.value(&self.script.texts)));
            next_id += 1;
            if let Err(error) = client.execute(&mut self.batch) {
                return Err(match error {
                    ClientError::Statement { message, .. } => {
                        self.script_error(sql.line, self.script.without_values(message, parameters), SQL_HINT)
                    }
                    other => other,
                });
            }
        }
        Ok(if transaction.ends_rolled_back { Outcome::RolledBack } else { Outcome::Committed })
    }
}

const SQL_HINT: &str = "this statement of the script failed in the engine: try it in the engine's own shell";

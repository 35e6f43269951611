//! Reads a user's script: sections, `\set` lines, statements. A mistake is reported with its line.
//!
//! A limit of the text's length bounds the reader's time and memory. No text makes the reader panic.

use std::collections::HashMap;
use std::sync::Arc;

use super::error::{Fault, ScriptError, closest, distance, shown};
use super::expression::{Expression, Names};
use super::number::Number;
use super::sql::{Control, Cursor, Sql, read_statement};

/// Longest script, in bytes.
pub const MAX_SCRIPT_BYTES: usize = 4 << 20;
/// Statements and `\set` lines of a script together.
const MAX_STEPS: usize = 10_000;
/// Largest weight of a transaction.
const MAX_WEIGHT: u32 = 1_000_000;
/// Longest name of a variable or transaction, in bytes.
const MAX_NAME: usize = 63;

/// The slot of the variable `transaction_number`.
pub(super) const NUMBER_SLOT: usize = 0;
const NUMBER: &str = "transaction_number";
/// The name of the transaction in a script without sections.
const ONLY_TRANSACTION: &str = "script";

/// A step of a section.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// `\set`: evaluates an expression and stores its value in a slot.
    Set { slot: usize, expression: Expression, line: usize },
    /// Executes a statement of the script, by its index.
    Execute(usize),
}

/// A transaction: its name, its weight, and its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    /// The transaction's name, by which results distinguish it from others.
    pub name: String,
    /// The driver chooses the transaction with probability weight / sum of all weights.
    pub weight: u32,
    /// The number of the transaction's statements.
    pub statements: usize,
    pub(super) steps: Vec<Step>,
    /// True if the last COMMIT or ROLLBACK in the transaction's text is a ROLLBACK.
    pub(super) ends_rolled_back: bool,
}

/// A script without mistakes.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub(super) source: String,
    pub(super) setup: Vec<Step>,
    setup_statements: usize,
    pub(super) transactions: Vec<Transaction>,
    /// The statements of setup and transactions, in the order of the text.
    pub(super) statements: Vec<Sql>,
    /// The value of every slot before the first `\set`.
    pub(super) slots: Vec<Number>,
    pub(super) zipf_places: usize,
    /// The texts of every `choose`, which the scripts of all connections share.
    pub(super) texts: Arc<[Box<str>]>,
    variables_used: Vec<String>,
}

impl Script {
    /// Reads a script that may refer to these predefined variables. `source` is the script's name in messages.
    ///
    /// # Errors
    /// The first mistake in the text.
    pub fn parse(source: &str, text: &str, variables: &[(String, Number)]) -> Result<Self, ScriptError> {
        Parser::new(source, variables)?.read(text)
    }

    /// Returns the transactions in the order of the text; none when the script has only a setup section.
    pub fn transactions(&self) -> &[Transaction] {
        &self.transactions
    }

    /// Returns the number of statements in the setup section.
    pub fn setup_statements(&self) -> usize {
        self.setup_statements
    }

    /// Returns the predefined variables that the script refers to, in alphabetical order.
    pub fn variables_used(&self) -> &[String] {
        &self.variables_used
    }

    /// Returns the name of the script's source, for messages.
    pub fn source(&self) -> &str {
        &self.source
    }
}

/// A line of the script that is not SQL but begins a section.
#[derive(Debug, PartialEq, Eq)]
enum Marker<'a> {
    Setup,
    /// A transaction section, with the text after the colon.
    Transaction(&'a str),
    /// A line that is meant to be a marker, but is misspelt.
    Misspelt {
        meant: &'static str,
    },
}

/// Returns the marker that begins a section, if this line, which begins with two dashes, is one.
fn marker(line: &str) -> Option<Marker<'_>> {
    let rest = line.strip_prefix("--")?.trim();
    let (head, tail) = rest.split_once(':').map_or((rest, None), |(head, tail)| (head.trim_end(), Some(tail)));
    let word = head.to_ascii_lowercase();
    match (word.as_str(), tail) {
        ("setup", None) => return Some(Marker::Setup),
        ("setup", Some(tail)) if tail.trim().is_empty() => return Some(Marker::Setup),
        ("transaction", Some(tail)) => return Some(Marker::Transaction(tail.trim())),
        _ => {}
    }
    let is_one_word = !word.contains(char::is_whitespace);
    if tail.is_some() && is_one_word && distance(&word, "transaction") <= 2 {
        return Some(Marker::Misspelt { meant: "-- transaction: NAME" });
    }
    let has_weight = word.starts_with("transaction ") && word.contains("weight");
    if tail.is_none() && (has_weight || word == "transaction") {
        return Some(Marker::Misspelt { meant: "-- transaction: NAME weight=N" });
    }
    if tail.is_none_or(|tail| tail.trim().is_empty()) && is_one_word && word.len() > 4 && distance(&word, "setup") <= 2
    {
        return Some(Marker::Misspelt { meant: "-- setup" });
    }
    None
}

/// The section that the parser is reading.
#[derive(Default)]
struct Section {
    /// The section's transaction; none in the setup section.
    transaction: Option<(String, u32)>,
    line: usize,
    steps: Vec<Step>,
    statements: usize,
    /// The variables set so far in this section, with their slots.
    set: HashMap<String, usize>,
    /// The line of the BEGIN whose transaction is still open; none outside of a transaction.
    open_since: Option<usize>,
    ends_rolled_back: bool,
}

impl Section {
    fn new(transaction: Option<(String, u32)>, line: usize) -> Self {
        Section { transaction, line, ..Section::default() }
    }
}

#[derive(Default)]
struct Parser<'a> {
    source: &'a str,
    predefined: HashMap<&'a str, usize>,
    used: Vec<&'a str>,
    script: Script,
    texts: Vec<Box<str>>,
    section: Option<Section>,
    has_setup: bool,
    has_sections: bool,
    steps: usize,
}

/// The variables that expressions and statements of the current section may use.
struct Scope<'p, 'a> {
    predefined: &'p HashMap<&'a str, usize>,
    used: &'p mut Vec<&'a str>,
    section: &'p Section,
    zipf_places: &'p mut usize,
    texts: &'p mut Vec<Box<str>>,
}

impl Names for Scope<'_, '_> {
    fn slot(&mut self, name: &str) -> Result<usize, Fault> {
        if let Some(&slot) = self.section.set.get(name) {
            return Ok(slot);
        }
        if name == NUMBER {
            if self.section.transaction.is_some() {
                return Ok(NUMBER_SLOT);
            }
            return Err(Fault::new(format!(":{NUMBER} has no value in the setup section"), "use a number instead"));
        }
        if let Some((&known, &slot)) = self.predefined.get_key_value(name) {
            self.used.push(known);
            return Ok(slot);
        }
        let mut known: Vec<&str> = self.predefined.keys().copied().collect();
        known.extend(self.section.set.keys().map(String::as_str));
        known.push(NUMBER);
        known.sort_unstable();
        let listed = known.iter().take(20).map(|name| format!(":{name}")).collect::<Vec<_>>().join(", ");
        let meant = closest(name, known).map(|meant| format!("did you mean :{meant}? ")).unwrap_or_default();
        let hint = format!("{meant}Set it with \\set earlier in the same section; known here: {listed}");
        Err(Fault::new(format!("the variable :{} has no value here", shown(name)), hint))
    }

    fn zipf_place(&mut self) -> usize {
        *self.zipf_places += 1;
        *self.zipf_places - 1
    }

    fn text_place(&mut self, text: String) -> u32 {
        self.texts.push(text.into());
        // The script's length bounds the number of texts.
        self.texts.len() as u32 - 1
    }
}

fn is_name(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts_well && name.len() <= MAX_NAME && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl<'a> Parser<'a> {
    fn new(source: &'a str, variables: &'a [(String, Number)]) -> Result<Self, ScriptError> {
        let mut slots = vec![Number::Int(0)];
        let mut predefined = HashMap::new();
        for (name, value) in variables {
            if !is_name(name) || name == NUMBER {
                let fault = Fault::new(format!("no parameter can be called {}", shown(name)), "rename the parameter");
                return Err(fault.at(source, 1));
            }
            predefined.insert(name.as_str(), slots.len());
            slots.push(*value);
        }
        let script = Script { source: source.to_owned(), slots, ..Script::default() };
        Ok(Parser { source, predefined, script, ..Parser::default() })
    }

    fn read(mut self, text: &str) -> Result<Script, ScriptError> {
        let source = self.source;
        if text.len() > MAX_SCRIPT_BYTES {
            let what = format!("this script has {} bytes, and a script may have {MAX_SCRIPT_BYTES}", text.len());
            return Err(Fault::new(what, "keep data in the setup section's SELECTs, not in literals").at(source, 1));
        }
        let mut cursor = Cursor { text, at: 0, line: 1 };
        loop {
            cursor.skip_blanks();
            let (rest, line) = (cursor.rest(), cursor.line);
            let at_line = |fault: Fault| fault.at(source, line);
            if rest.is_empty() {
                break;
            } else if rest.starts_with("--") {
                let comment = cursor.line_text();
                cursor.skip(comment.len());
                // Only a comment on its own line can begin a section, not one after a statement.
                let before = text[..cursor.at - comment.len()].trim_end_matches([' ', '\t']);
                if before.is_empty() || before.ends_with(['\n', '\r']) {
                    self.comment_line(comment.trim_end(), line).map_err(at_line)?;
                }
            } else if rest.starts_with("/*") {
                cursor.skip_block_comment().map_err(at_line)?;
            } else if rest.starts_with(';') {
                cursor.skip(1);
            } else if rest.starts_with('\\') {
                let command = cursor.line_text();
                cursor.skip(command.len());
                self.meta(command.trim_end(), line).map_err(at_line)?;
            } else {
                self.statement(&mut cursor)?;
            }
        }
        self.end_section()?;
        self.finish()
    }

    fn finish(mut self) -> Result<Script, ScriptError> {
        if self.script.transactions.is_empty() && !self.has_setup {
            let fault = Fault::new("this script has no statement", "write SQL, for example SELECT 1;");
            return Err(fault.at(self.source, 1));
        }
        self.used.sort_unstable();
        self.used.dedup();
        self.script.texts = self.texts.into();
        self.script.variables_used = self.used.iter().map(|&name| name.to_owned()).collect();
        Ok(self.script)
    }

    fn comment_line(&mut self, line: &str, number: usize) -> Result<(), Fault> {
        let transaction = match marker(line) {
            None => return Ok(()),
            Some(Marker::Misspelt { meant }) => {
                let what = format!("\"{}\" looks like the beginning of a section", shown(line));
                return Err(Fault::new(what, format!("write {meant}, or begin the comment with another word")));
            }
            Some(Marker::Setup) if self.has_setup => {
                return Err(Fault::new("this is the second setup section", "put all of the setup into one section"));
            }
            Some(Marker::Setup) => {
                self.has_setup = true;
                None
            }
            Some(Marker::Transaction(rest)) => Some(self.transaction_line(rest)?),
        };
        if let Some(section) = self.section.as_ref().filter(|_| !self.has_sections) {
            let what = format!("line {} stands before the first section", section.line);
            let hint = "put what comes first under \"-- setup\" or under a separate \"-- transaction: NAME\"";
            return Err(Fault::new(what, hint));
        }
        self.end_section().map_err(|error| Fault::new(error.what, error.hint))?;
        self.has_sections = true;
        self.section = Some(Section::new(transaction, number));
        Ok(())
    }

    /// Returns name and weight from the text after `-- transaction:`.
    fn transaction_line(&self, rest: &str) -> Result<(String, u32), Fault> {
        let mut words = rest.split_whitespace();
        let name = words.next().unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_plain) {
            let what = format!("\"{}\" is no name for a transaction", shown(name));
            let hint = "a name is made of small letters, digits and _, as in \"-- transaction: read weight=9\"";
            return Err(Fault::new(what, hint));
        }
        if self.script.transactions.iter().any(|transaction| transaction.name == name) || self.is_open(name) {
            return Err(Fault::new(format!("there are two transactions called {name}"), "give each a different name"));
        }
        let mut weight = 1;
        if let Some(word) = words.next() {
            let number = word.strip_prefix("weight=").and_then(|number| number.parse().ok());
            let allowed = number.filter(|number| (1..=MAX_WEIGHT).contains(number));
            weight = allowed.ok_or_else(|| {
                let hint = format!("write weight=N with a whole number from 1 to {MAX_WEIGHT}, and no blanks around =");
                Fault::new(format!("\"{}\" is no weight", shown(word)), hint)
            })?;
        }
        match words.next() {
            None => Ok((name.to_owned(), weight)),
            Some(word) => {
                let what = format!("\"{}\" follows the name and weight", shown(word));
                Err(Fault::new(what, "write \"-- transaction: NAME weight=N\" and nothing after it"))
            }
        }
    }

    fn is_open(&self, name: &str) -> bool {
        let open = self.section.as_ref().and_then(|section| section.transaction.as_ref());
        open.is_some_and(|transaction| transaction.0 == name)
    }

    /// Returns the section being read. A script without markers has one section, the transaction `script`, which begins
    /// at `line`.
    fn section(&mut self, line: usize) -> &mut Section {
        self.section.get_or_insert_with(|| Section::new(Some((ONLY_TRANSACTION.to_owned(), 1)), line))
    }

    fn count_step(&mut self) -> Result<(), Fault> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            let what = format!("this script has more than {MAX_STEPS} statements and \\set lines");
            return Err(Fault::new(what, "use several scripts"));
        }
        Ok(())
    }

    /// Reads a line that begins with a backslash.
    fn meta(&mut self, command: &str, line: usize) -> Result<(), Fault> {
        let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        if word != "\\set" {
            let hint = match word {
                "\\sleep" => "known: \\set. The setting rate spaces transactions out instead",
                "\\setrandom" => "known: \\set. Write \\set NAME random(low, high)",
                _ => "known: \\set NAME EXPRESSION",
            };
            return Err(Fault::new(format!("{} is no command of scripts", shown(word)), hint));
        }
        let (name, expression) = rest.trim_start().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
        let form = "write \\set NAME EXPRESSION, as in \\set id random(1, 1000)";
        if !is_name(name) {
            let what = format!("\"{}\" is no name for a variable", shown(name));
            return Err(Fault::new(what, format!("{form}; a name is made of letters, digits and _")));
        }
        if self.predefined.contains_key(name) || name == NUMBER {
            let what = format!("the workload sets :{name}, and a script cannot");
            return Err(Fault::new(what, "choose another name"));
        }
        if expression.trim().is_empty() {
            return Err(Fault::new(format!("\\set {name} has no expression"), form));
        }
        self.count_step()?;
        self.section(line);
        let Parser { predefined, used, script, texts, section: Some(section), .. } = self else { return Ok(()) };
        let mut scope = Scope { predefined, used, section, zipf_places: &mut script.zipf_places, texts };
        let expression = Expression::read(expression, &mut scope)?;
        let slot = *section.set.entry(name.to_owned()).or_insert_with(|| {
            script.slots.push(Number::Int(0));
            script.slots.len() - 1
        });
        section.steps.push(Step::Set { slot, expression, line });
        Ok(())
    }

    fn statement(&mut self, cursor: &mut Cursor<'_>) -> Result<(), ScriptError> {
        let (source, first_line) = (self.source, cursor.line);
        self.count_step().map_err(|fault| fault.at(source, first_line))?;
        self.section(first_line);
        let Parser { predefined, used, script, texts, section: Some(section), .. } = self else { return Ok(()) };
        let mut scope = Scope { predefined, used, section, zipf_places: &mut script.zipf_places, texts };
        let sql = read_statement(cursor, |line| marker(line).is_some(), &mut |name| scope.slot(name))
            .map_err(|(line, fault)| fault.at(source, line))?;
        follow_transaction(section, &sql).map_err(|fault| fault.at(source, first_line))?;
        section.steps.push(Step::Execute(script.statements.len()));
        section.statements += 1;
        script.statements.push(sql);
        Ok(())
    }

    fn end_section(&mut self) -> Result<(), ScriptError> {
        let Some(section) = self.section.take() else { return Ok(()) };
        if let Some(line) = section.open_since {
            let fault =
                Fault::new("this BEGIN has no COMMIT or ROLLBACK in its section", "end the section with COMMIT;");
            return Err(fault.at(self.source, line));
        }
        match section.transaction {
            None => {
                self.script.setup = section.steps;
                self.script.setup_statements = section.statements;
            }
            Some((name, _)) if section.statements == 0 => {
                let fault = Fault::new(format!("the transaction {name} has no statement"), "write SQL below this line");
                return Err(fault.at(self.source, section.line));
            }
            Some((name, weight)) => self.script.transactions.push(Transaction {
                name,
                weight,
                statements: section.statements,
                steps: section.steps,
                ends_rolled_back: section.ends_rolled_back,
            }),
        }
        Ok(())
    }
}

/// Keeps track of BEGIN and COMMIT. A section must leave no transaction open, because any other section may follow it.
fn follow_transaction(section: &mut Section, sql: &Sql) -> Result<(), Fault> {
    match (sql.control, section.open_since) {
        (Control::None, _) | (Control::Savepoint, Some(_)) => {}
        (Control::Begin, None) => section.open_since = Some(sql.line),
        (Control::Begin, Some(line)) => {
            let what = format!("BEGIN inside the transaction begun on line {line}");
            return Err(Fault::new(what, "end that one with COMMIT; before"));
        }
        (Control::Chain, _) => {
            return Err(Fault::new("AND CHAIN leaves a transaction open", "write COMMIT; and then BEGIN;"));
        }
        (Control::Commit | Control::Rollback, Some(_)) => {
            section.open_since = None;
            section.ends_rolled_back = sql.control == Control::Rollback;
        }
        (Control::Commit | Control::Rollback | Control::Savepoint, None) => {
            let what = "this statement needs a transaction, and none is open";
            return Err(Fault::new(what, "write BEGIN; before it, in the same section"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! Finds after how many transactions a script's updates have moved most of the rows that they reach, for engines that
//! write an updated row to another place.
//!
//! It plays the script without an engine, and counts the updates of each row. The values of the variables after a
//! statement's WHERE identify the row. Statements without such variables are left out.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::error::ScriptError;
use super::number::Number;
use super::parser::{Script, Step};
use super::workload::ScriptWorkload;
use crate::client::{Value, Workload};

/// The number of updates after which a row counts as settled. When equally likely rows have had three updates on
/// average, 5 % of them have had none.
const SETTLED: u8 = 3;
/// The share of updates that reach settled rows is computed over stretches of at least this many transactions and, by
/// the next constant, updates. So chance changes the share of a stretch by only a few per cent.
const STRETCH: u64 = 5_000;
const STRETCH_UPDATES: u64 = 1_000;
/// The most rows that are counted, in some hundred megabytes. A script that updates more of them hardly settles.
const MOST_ROWS: usize = 4_000_000;

impl Script {
    /// Returns the number of transactions after which at least half of the updates reach settled rows, that is, rows
    /// that have had three updates. Returns zero if no statement updates rows that its variables choose, or if `most`
    /// transactions or `MOST_ROWS` are too few.
    ///
    /// # Errors
    /// Never. Only a script without transactions could be refused, and it has no updates.
    pub fn updates_settle_after(&self, most: u64) -> Result<u64, ScriptError> {
        if !self.updates() {
            return Ok(0);
        }
        let mut played = ScriptWorkload::new(self.clone(), 0)?;
        let mut rows = HashMap::new();
        let (mut stretch, mut updates, mut settled) = (0, 0, 0);
        for transaction in 1..=most {
            played.plan();
            stretch += 1;
            played.each_update(|row| {
                let updated: &mut u8 = rows.entry(row).or_default();
                updates += 1;
                settled += u64::from(*updated >= SETTLED);
                *updated = updated.saturating_add(1);
            });
            if stretch >= STRETCH && updates >= STRETCH_UPDATES {
                if 2 * settled >= updates {
                    return Ok(transaction);
                }
                (stretch, updates, settled) = (0, 0, 0);
            }
            if rows.len() > MOST_ROWS {
                break;
            }
        }
        Ok(0)
    }

    /// Returns true when a statement of a transaction updates rows that variables choose.
    fn updates(&self) -> bool {
        let mut steps = self.transactions.iter().flat_map(|transaction| &transaction.steps);
        steps.any(|step| matches!(step, Step::Execute(index) if self.statements[*index].row_from.is_some()))
    }
}

/// Returns a number that is the same for the same row of the same statement.
pub(super) fn row_of(statement: usize, values: &[Number], texts: &[Box<str>]) -> u64 {
    let mut hasher = DefaultHasher::new();
    statement.hash(&mut hasher);
    for number in values {
        match number.value(texts) {
            Value::Null => 0_u8.hash(&mut hasher),
            Value::Int(int) => int.hash(&mut hasher),
            Value::Real(real) => real.to_bits().hash(&mut hasher),
            Value::Text(text) => text.hash(&mut hasher),
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settles(text: &str, most: u64) -> u64 {
        Script::parse("my.sql", text, &[])
            .expect("it is right")
            .updates_settle_after(most)
            .expect("it has a transaction")
    }

    /// Returns a script in which a share of the transactions, in per cent, updates one of `rows` rows.
    fn script(percent: u32, rows: u32) -> String {
        format!(
            "-- transaction: look weight={}\n\\set id random(1, 10)\nSELECT * FROM t WHERE id = :id;\n\
             -- transaction: change weight={percent}\n\\set id random(1, {rows})\n\\set by random(1, 1000000)\n\
             UPDATE t SET a = a + :by WHERE id = :id;\n",
            100 - percent
        )
    }

    #[test]
    fn half_of_the_rows_had_three_updates_after_as_many_as_chance_says() {
        // With a mean of 2.67 updates a row, half of the rows have had at least three: P(Poisson(2.67) >= 3) = 0.5.
        for (percent, rows) in [(20, 2_000), (10, 18_000), (50, 100_000)] {
            let expected = 2.674 * f64::from(rows) * 100.0 / f64::from(percent);
            let found = settles(&script(percent, rows), 1_000_000) as f64;
            assert!((0.9..1.2).contains(&(found / expected)), "{percent} % of {rows} rows: {found} and {expected}");
        }
    }

    #[test]
    fn the_few_updates_of_a_large_cold_part_do_not_count() {
        let cold = "-- transaction: cold weight=5\n\\set id random(1, 1000000)\nUPDATE t SET a = 1 WHERE id = :id;\n";
        let (hot, both) = (settles(&script(20, 2_000), 1_000_000), settles(&(script(20, 2_000) + cold), 1_000_000));
        assert!(hot <= both && both <= 2 * hot, "{hot} and {both}");
    }

    #[test]
    fn without_updates_or_with_too_many_rows_nothing_is_waited_for() {
        assert_eq!(settles("\\set id random(1, 10)\nSELECT * FROM t WHERE id = :id;", 100_000), 0);
        assert_eq!(settles("UPDATE t SET a = a + 1 WHERE b < 7;", 100_000), 0);
        assert_eq!(settles("-- UPDATE t SET a = 1 WHERE id = :x\n\\set x 1\nSELECT ':x', :x;", 100_000), 0);
        assert_eq!(settles(&script(10, 1_000_000), 100_000), 0);
        // Within so few transactions, fewer than half of the updates reach settled rows.
        assert_eq!(settles(&script(20, 2_000), 20_000), 0);
    }
}

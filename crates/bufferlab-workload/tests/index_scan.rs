//! Tests TPC-H's rows against the text that the generator's own crate writes, and Q1's answers against sums over that
//! text.

use std::collections::BTreeMap;
use std::fmt::Write;

use bufferlab_workload::client::{Batch, Client, ClientError, Outcome, StatementId, Value, Workload};
use bufferlab_workload::index_scan::{
    Answer, Group, IndexScanConfig, IndexScanDriver, IndexScanPopulation, Q1_UNTIL_DAY, STATEMENTS, ScaleFactor, TABLE,
    Table, TableSet, day_of,
};
use bufferlab_workload::plan::Plan;
use bufferlab_workload::population::{Column, ColumnKind};
use bufferlab_workload::population::{LoadedTable, Population, RowBlock};
use tpchgen::csv::LineItemCsv;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

fn scale(factor: f64) -> ScaleFactor {
    ScaleFactor::new(factor).expect("the scale is valid")
}

fn config(factor: f64, from: &str, until: &str) -> IndexScanConfig {
    let day = |text| day_of(text).expect("a date");
    IndexScanConfig { scale_factor: scale(factor), from_day: day(from), until_day: day(until), plan: Plan::IndexScan }
}

/// Returns LINEITEM as comma-separated text, as the generator's crate writes it in one part.
fn csv(factor: f64) -> String {
    let mut text = String::new();
    for item in LineItemGenerator::new(factor, 1, 1).iter() {
        writeln!(text, "{}", LineItemCsv::new(item)).expect("a string takes what is written");
    }
    text
}

/// Returns the text of every possible date, by its days since 1970.
fn calendar() -> BTreeMap<i64, String> {
    let mut dates = BTreeMap::new();
    for year in 1992..=1999 {
        for month in 1..=12 {
            for day in 1..=31 {
                let text = format!("{year}-{month:02}-{day:02}");
                if let Some(number) = day_of(&text) {
                    dates.insert(i64::from(number), text);
                }
            }
        }
    }
    dates
}

/// Writes a loaded row in the form of the generator's crate and of dbgen, with a bar after each field.
fn as_tbl(table: Table, block: &RowBlock, row: usize, dates: &BTreeMap<i64, String>, text: &mut String) {
    for (column, Column { name, kind, .. }) in table.columns().iter().enumerate() {
        let written = match (block.value(row, column), kind) {
            // The crate writes quantities as whole numbers.
            (Value::Int(int), ColumnKind::Cents) if *name == "l_quantity" => write!(text, "{}|", int / 100),
            (Value::Int(int), ColumnKind::Cents) => {
                let sign = if int < 0 { "-" } else { "" };
                write!(text, "{sign}{}.{:02}|", int.abs() / 100, int.abs() % 100)
            }
            (Value::Int(int), ColumnKind::Days) => write!(text, "{}|", dates[&int]),
            (Value::Int(int), ColumnKind::Integer) => write!(text, "{int}|"),
            (Value::Text(value), ColumnKind::Text { max_chars }) => {
                assert!(value.len() <= usize::from(*max_chars), "{name} {value}");
                write!(text, "{value}|")
            }
            other => panic!("{name} is {other:?}"),
        };
        written.expect("a string takes what is written");
    }
    text.push('\n');
}

fn shown<T: std::fmt::Display>(rows: impl Iterator<Item = T>) -> String {
    rows.fold(String::new(), |mut text, row| {
        writeln!(text, "{row}").expect("a string takes what is written");
        text
    })
}

/// Returns a whole table as text, as the generator's crate writes it in one part.
fn tbl(table: Table, factor: f64) -> String {
    match table {
        Table::Region => shown(RegionGenerator::default().iter()),
        Table::Nation => shown(NationGenerator::default().iter()),
        Table::Supplier => shown(SupplierGenerator::new(factor, 1, 1).iter()),
        Table::Part => shown(PartGenerator::new(factor, 1, 1).iter()),
        Table::PartSupp => shown(PartSuppGenerator::new(factor, 1, 1).iter()),
        Table::Customer => shown(CustomerGenerator::new(factor, 1, 1).iter()),
        Table::Orders => shown(OrderGenerator::new(factor, 1, 1).iter()),
        Table::LineItem => shown(LineItemGenerator::new(factor, 1, 1).iter()),
    }
}

#[test]
fn the_partitions_together_are_every_table_as_its_own_crate_writes_it() {
    for factor in [0.001, 0.04] {
        let population = IndexScanPopulation::new(scale(factor), TableSet::All);
        let (mut block, mut texts, mut rows) = (RowBlock::new(), vec![String::new(); Table::ALL.len()], 0);
        let dates = calendar();
        for partition in 0..population.partitions() {
            population.generate(partition, &mut block);
            let index = block.table();
            assert_eq!(population.table_of(partition), index);
            rows += block.rows() as u64;
            (0..block.rows()).for_each(|row| as_tbl(Table::ALL[index], &block, row, &dates, &mut texts[index]));
        }
        for (table, text) in Table::ALL.into_iter().zip(&texts) {
            let expected = tbl(table, factor);
            let differs = text.lines().zip(expected.lines()).find(|(ours, theirs)| ours != theirs);
            assert_eq!(differs, None);
            assert_eq!(text.len(), expected.len(), "{}", table.name());
            let exact = text.lines().count() as u64;
            let tolerance = if table == Table::LineItem { exact / 50 } else { 0 };
            assert!(exact.abs_diff(table.expected_rows(scale(factor))) <= tolerance, "{} {exact}", table.name());
        }
        assert!(rows.abs_diff(population.expected_rows()) < rows / 50, "{rows} rows at {factor}");
    }
}

#[test]
fn lineitem_alone_is_the_last_of_all_tables() {
    let [all, alone] = [TableSet::All, TableSet::LineItem].map(|set| IndexScanPopulation::new(scale(0.01), set));
    assert_eq!(alone.partitions(), 10, "so that partitions are tested at all");
    let [LoadedTable { name: TABLE, columns }] = &alone.tables()[..] else { panic!("{:?}", alone.tables()) };
    assert_eq!(columns.len(), 16);
    assert_eq!(all.tables().last(), alone.tables().first());
    let first = all.partitions() - alone.partitions();
    let (mut one, mut other) = (RowBlock::new(), RowBlock::new());
    all.generate(first + 4, &mut one);
    alone.generate(4, &mut other);
    assert_eq!((one.table(), other.table(), one.rows()), (7, 0, other.rows()));
    assert!((0..one.rows()).all(|row| (0..16).all(|column| one.value(row, column) == other.value(row, column))));
}

#[test]
fn partitions_do_not_depend_on_each_other_and_keys_ascend() {
    let population = IndexScanPopulation::new(scale(0.01), TableSet::LineItem);
    let (mut alone, mut after) = (RowBlock::new(), RowBlock::new());
    population.generate(7, &mut alone);
    population.generate(3, &mut after);
    population.generate(7, &mut after);
    let key = |block: &RowBlock, row| {
        [0, 3].map(|column| match block.value(row, column) {
            Value::Int(int) => int,
            other => panic!("{other:?} is no number"),
        })
    };
    let keys = |block: &RowBlock| (0..block.rows()).map(|row| key(block, row)).collect::<Vec<_>>();
    assert_eq!(keys(&alone), keys(&after));
    assert!(keys(&alone).windows(2).all(|pair| pair[0] < pair[1]));
}

/// Returns the sums over the text for each flag and status: rows, then quantity, price, discounted price, charge and
/// discount.
fn summed(csv: &str, from: &str, until: &str) -> BTreeMap<(char, char), [i128; 6]> {
    let mut groups: BTreeMap<(char, char), [i128; 6]> = BTreeMap::new();
    for line in csv.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        // Dates in this form have the order of their texts.
        if fields[10] < from || fields[10] >= until {
            continue;
        }
        let hundredths = |field: usize| fields[field].replace('.', "").parse::<i128>().expect("a number");
        let (price, discount, tax) = (hundredths(5), hundredths(6), hundredths(7));
        let discounted = price * (100 - discount);
        let row = [1, 100 * hundredths(4), price, discounted, discounted * (100 + tax), discount];
        let letter = |field: usize| fields[field].chars().next().expect("a letter");
        let sums = groups.entry((letter(8), letter(9))).or_default();
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    groups
}

#[test]
fn answers_are_the_sums_over_the_tables_text() {
    let text = csv(0.01);
    for (from, until) in [
        ("1992-01-01", "1998-09-03"),
        ("1993-01-01", "1994-01-01"),
        ("1995-06-01", "1995-06-18"),
        ("1992-01-01", "1992-01-02"),
    ] {
        let answer = Answer::expected(&config(0.01, from, until));
        let ours: BTreeMap<(char, char), [i128; 6]> = answer
            .groups()
            .iter()
            .map(|Group { return_flag, line_status, sums }| {
                let sums =
                    [sums.rows, sums.quantity, sums.base_price, sums.discounted_price, sums.charge, sums.discount];
                ((*return_flag, *line_status), sums.map(i128::from))
            })
            .collect();
        let expected = summed(&text, from, until);
        assert_eq!(answer.rows() as i128, expected.values().map(|sums| sums[0]).sum::<i128>());
        assert_eq!(ours, expected, "{from} to {until}");
    }
}

#[test]
fn the_generators_rows_give_the_published_answer() {
    let whole = config(1.0, "1992-01-01", "1998-09-03");
    let answer = Answer::expected(&whole);
    assert_eq!(answer.groups().len(), 4);
    assert_eq!(answer.check_published(&whole), Ok(()));
    let other = Answer::expected(&config(0.001, "1992-01-01", "1998-09-03"));
    assert!(other.check_published(&whole).is_err(), "the answer of another scale is not the published one");
    assert_eq!(other.check_published(&config(0.001, "1992-01-01", "1998-09-03")), Ok(()), "nothing is published");
}

/// A client that answers Q1 correctly, except for one value.
struct Engine {
    answer: Answer,
    change: Option<(usize, usize)>,
    rows_left_out: usize,
    asked: Vec<(StatementId, Vec<i64>)>,
}

impl Client for Engine {
    fn begin(&mut self, _read_only: bool) -> Result<(), ClientError> {
        panic!("Q1 is a transaction of its own")
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        panic!("Q1 is a transaction of its own")
    }

    fn rollback(&mut self) -> Result<(), ClientError> {
        panic!("Q1 is a transaction of its own")
    }

    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError> {
        let param = |index| if let Value::Int(day) = batch.param(0, index) { day } else { panic!("days are numbers") };
        self.asked.push((batch.statement(0), vec![param(0), param(1)]));
        batch.begin_rows(0);
        let rows = self.answer.groups().len() - self.rows_left_out;
        for (row, group) in self.answer.groups().iter().take(rows).enumerate() {
            let sums = &group.sums;
            let mean = |sum: i64| Value::Real(sum as f64 / 100.0 / sums.rows as f64);
            let (flag, status) = (group.return_flag.to_string(), group.line_status.to_string());
            let mut values = [
                Value::Text(&flag),
                Value::Text(&status),
                Value::Int(sums.quantity),
                Value::Int(sums.base_price),
                Value::Int(sums.discounted_price),
                Value::Int(sums.charge),
                mean(sums.quantity),
                mean(sums.base_price),
                mean(sums.discount),
                Value::Int(sums.rows),
            ];
            if let Some((_, column)) = self.change.filter(|change| change.0 == row) {
                values[column] = match values[column] {
                    Value::Int(int) => Value::Int(int + 1),
                    Value::Real(real) => Value::Real(real + 2e-6),
                    _ => Value::Text("X"),
                };
            }
            values.into_iter().for_each(|value| batch.push_column(value));
            batch.end_row(0);
        }
        Ok(())
    }

    fn rows_returned(&self) -> u64 {
        0
    }
}

#[test]
fn a_right_answer_is_counted_and_any_wrong_value_is_an_error() {
    let config = config(0.001, "1992-01-01", "1998-09-03");
    let mut driver = IndexScanDriver::new(&config).expect("the range is valid");
    let mut engine = Engine { answer: driver.answer().clone(), change: None, rows_left_out: 0, asked: Vec::new() };
    driver.begin_window();
    Workload::plan(&mut driver);
    assert_eq!(driver.execute(&mut engine), Ok(Outcome::Committed));
    assert_eq!(driver.checked(), 1);
    assert_eq!(engine.asked, [(StatementId(0), vec![8_035, i64::from(Q1_UNTIL_DAY)])]);
    for row in 0..engine.answer.groups().len() {
        for column in 0..STATEMENTS[0].columns {
            engine.change = Some((row, column));
            let error = driver.execute(&mut engine).expect_err("one value is wrong");
            assert!(matches!(&error, ClientError::Data { message } if message.contains("Q1")), "{error}");
        }
    }
    engine = Engine { change: None, rows_left_out: 1, ..engine };
    driver.execute(&mut engine).expect_err("a row is missing");
    assert_eq!(driver.checked(), 1);
}

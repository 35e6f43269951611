//! Tests of the client and the loader with a real MySQL or MariaDB server, which `support/mysql_server.rs` names.

#[path = "support/mysql_server.rs"]
mod server;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bufferlab_drive::dialect::{RowUse, Statements};
use bufferlab_drive::failure::FailureKind;
use bufferlab_drive::mysql::client::{MysqlClient, Sending};
use bufferlab_drive::mysql::connection::connect;
use bufferlab_drive::mysql::loader::load;
use bufferlab_drive::server::encode::Form;
use bufferlab_drive::server::job::Load;
use bufferlab_drive::server::target::Target;
use bufferlab_workload::client::{Batch, Client, ClientError, StatementId, StatementSpec, Value, Workload};
use bufferlab_workload::hot_rows::{HotRowsConfig, HotRowsDriver, HotRowsPopulation, Layout};
use bufferlab_workload::tpcc::population::TpccPopulation;
use bufferlab_workload::tpcc::schema::TableId;
use bufferlab_workload::tpcc::{TpccConfig, TpccDriver};

use server::{checksums, drop_database, loaded, one, target};

const TPCC_TABLES: [&str; 9] =
    ["item", "warehouse", "district", "stock", "customer", "history", "orders", "new_order", "order_line"];

fn tpcc(run_seed: u64) -> TpccConfig {
    TpccConfig::new(1, 7, run_seed).expect("the scale is valid")
}

#[test]
fn both_forms_of_loading_give_the_same_rows() {
    let (Some(lines), Some(tuples)) = (target("lines"), target("tuples")) else { return };
    let by_lines = loaded(&lines, TpccPopulation::new(tpcc(0)), Some(Form::Lines));
    let by_tuples = loaded(&tuples, TpccPopulation::new(tpcc(0)), Some(Form::Tuples));
    println!("LOAD DATA {:.0} rows/s, INSERT {:.0} rows/s", rate(&by_lines), rate(&by_tuples));
    assert_eq!(by_lines.tables, by_tuples.tables);
    let rows = |table: TableId| by_lines.tables.iter().find(|(name, _)| name == table.name()).map(|(_, rows)| *rows);
    assert_eq!(rows(TableId::Stock), Some(100_000));
    assert_eq!(rows(TableId::NewOrder), Some(9_000));
    for (name, rows) in &by_lines.tables {
        assert_eq!(one::<u64>(&lines, &format!("SELECT COUNT(*) FROM {name}")), *rows, "{name}");
    }
    assert_eq!(checksums(&lines, &TPCC_TABLES), checksums(&tuples, &TPCC_TABLES));
    assert!(by_lines.bytes > 50_000_000, "{} bytes", by_lines.bytes);
    for index in ["customer_by_name", "orders_by_customer"] {
        let sql = format!(
            "SELECT COUNT(DISTINCT index_name) FROM information_schema.statistics \
             WHERE table_schema = '{}' AND index_name = '{index}'",
            lines.database
        );
        assert_eq!(one::<u64>(&lines, &sql), 1, "{index}");
    }
    drop_database(&lines);
    drop_database(&tuples);
}

#[test]
fn a_cancelled_load_ends_soon_in_both_forms() {
    for form in [Form::Lines, Form::Tuples] {
        let Some(target) = target("cancelled") else { return };
        let job = Load {
            target: target.clone(),
            data: TpccPopulation::new(tpcc(0)).into(),
            threads: 2,
            storage_engine: None,
            form: Some(form),
        };
        let (cancelled, (ended, end)) = (AtomicBool::new(false), std::sync::mpsc::channel());
        std::thread::scope(|scope| {
            let cancelled = &cancelled;
            scope.spawn(move || {
                // Do not let a load that hangs make the test hang.
                std::thread::sleep(Duration::from_millis(400));
                cancelled.store(true, Ordering::Relaxed);
                if end.recv_timeout(Duration::from_secs(30)).is_err() {
                    eprintln!("the load did not end within 30 s of being cancelled");
                    std::process::abort();
                }
            });
            let failure = load(&job, cancelled, &mut |_| {}).expect_err("it was cancelled");
            assert_eq!(failure.kind, FailureKind::Interrupted, "{failure}");
            ended.send(()).expect("it is waited for");
        });
        drop_database(&target);
    }
}

fn rate(loaded: &bufferlab_drive::loaded::Loaded) -> f64 {
    loaded.rows as f64 / loaded.seconds
}

/// Executes transactions of one driver. Returns their outputs as text, and the client.
fn run(target: &Target, sending: Sending, transactions: usize) -> (Vec<String>, MysqlClient) {
    let mut driver = TpccDriver::new(tpcc(3), 0, 1).expect("there is such a driver");
    let conn = connect(target).expect("the database is there");
    let mut client = MysqlClient::of_workload(conn, &mut driver, sending).expect("every statement is prepared");
    let mut outputs = Vec::new();
    for _ in 0..transactions {
        driver.plan();
        driver.execute(&mut client).unwrap_or_else(|error| panic!("{error}"));
        outputs.push(format!("{:?}", driver.last_output()));
    }
    (outputs, client)
}

#[test]
fn batched_statements_answer_and_write_what_spec_does() {
    let (Some(spec), Some(batched)) = (target("spec"), target("batched")) else { return };
    for target in [&spec, &batched] {
        loaded(target, TpccPopulation::new(tpcc(0)), None);
    }
    let (transactions, loaded_sums) = (600, checksums(&spec, &TPCC_TABLES));
    let (spec_outputs, spec_client) = run(&spec, Sending::Spec, transactions);
    let (batched_outputs, batched_client) = run(&batched, Sending::Batched, transactions);
    assert_eq!(spec_outputs, batched_outputs);
    let sums = checksums(&spec, &TPCC_TABLES);
    assert_eq!(sums, checksums(&batched, &TPCC_TABLES));
    let unchanged: Vec<&String> =
        sums.iter().zip(&loaded_sums).filter(|(now, then)| now == then).map(|(now, _)| &now.0).collect();
    assert_eq!(unchanged, ["item"], "every other table was written");
    let (one_by_one, coalesced) = (spec_client.round_trips(), batched_client.round_trips());
    println!(
        "round trips per transaction: spec {:.1}, batched {:.1}",
        per(one_by_one, transactions),
        per(coalesced, transactions)
    );
    assert!(coalesced * 3 < one_by_one, "{coalesced} of {one_by_one} round trips");
    assert_eq!(spec_client.rows_returned(), batched_client.rows_returned());
    consistent(&spec);
    consistent(&batched);
    drop_database(&spec);
    drop_database(&batched);
}

fn per(count: u64, transactions: usize) -> f64 {
    count as f64 / transactions as f64
}

/// Checks TPC-C's consistency conditions 1 to 4, 8 to 10 and 12 (specification, 3.3.2), by queries for rows that break
/// one.
fn consistent(target: &Target) {
    let conditions = [
        "SELECT COUNT(*) FROM warehouse WHERE w_ytd <> (SELECT SUM(d_ytd) FROM district WHERE d_w_id = w_id)",
        "SELECT COUNT(*) FROM district WHERE d_next_o_id - 1 <> \
         (SELECT MAX(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)",
        "SELECT COUNT(*) FROM (SELECT MAX(no_o_id) - MIN(no_o_id) + 1 - COUNT(*) AS gap FROM new_order \
         GROUP BY no_w_id, no_d_id) AS gaps WHERE gap <> 0",
        "SELECT ABS((SELECT SUM(o_ol_cnt) FROM orders) - (SELECT COUNT(*) FROM order_line))",
        "SELECT COUNT(*) FROM warehouse WHERE w_ytd <> (SELECT SUM(h_amount) FROM history WHERE h_w_id = w_id)",
        "SELECT COUNT(*) FROM district WHERE d_ytd <> \
         (SELECT SUM(h_amount) FROM history WHERE h_w_id = d_w_id AND h_d_id = d_id)",
        "SELECT ABS(SUM(c_balance + c_ytd_payment) - (SELECT SUM(ol_amount) FROM order_line WHERE ol_delivery_d IS NOT NULL)) \
         FROM customer",
    ];
    for sql in conditions {
        assert_eq!(one::<f64>(target, sql), 0.0, "{sql}");
    }
}

#[test]
fn the_hot_rows_of_a_loaded_table_are_read_and_updated() {
    let Some(target) = target("hot_rows") else { return };
    let population = HotRowsPopulation::new(20_000, 5).expect("the scale is valid");
    assert_eq!(loaded(&target, population, None).rows, 20_000);
    let config = HotRowsConfig {
        rows: 20_000,
        run_seed: 1,
        hot_rows: 500,
        layout: Layout::Scattered,
        zipf: 0.0,
        update_percent: 20,
    };
    for sending in [Sending::Spec, Sending::Batched] {
        let mut driver = HotRowsDriver::new(&config).expect("the bounds are kept");
        let conn = connect(&target).expect("the database is there");
        let mut client = MysqlClient::of_workload(conn, &mut driver, sending).expect("every statement is prepared");
        while driver.prefill_step(&mut client).expect("every hot row is there") {}
        assert_eq!(client.rows_returned(), 500);
        for _ in 0..300 {
            driver.plan();
            driver.execute(&mut client).expect("the row is there");
        }
    }
    drop_database(&target);
}

const READ: StatementId = StatementId(0);
const ADD: StatementId = StatementId(1);

/// Returns a client over a table of two rows, for cases that no workload produces on purpose.
fn small_client(target: &Target) -> MysqlClient {
    let statements = Statements {
        place: "this test".to_owned(),
        specs: vec![
            StatementSpec { name: Cow::Borrowed("read"), parameters: 1, columns: 2 },
            StatementSpec { name: Cow::Borrowed("add"), parameters: 2, columns: 0 },
        ],
        texts: vec![
            "SELECT amount, at FROM small WHERE id = ?".to_owned(),
            "UPDATE small SET amount = amount + ? / 100 WHERE id = ?;".to_owned(),
        ],
        rows: RowUse::Kept,
    };
    let conn = connect(target).expect("the database is there");
    MysqlClient::new(conn, &statements, None).expect("both are prepared")
}

fn small_table(target: &Target) {
    let mut conn = bufferlab_drive::mysql::connection::connect_to_server(target).expect("the server is there");
    conn.query_drop(format!("CREATE DATABASE {}", target.database)).expect("it is made");
    conn.query_drop(format!("USE {}", target.database)).expect("it is there");
    conn.query_drop("CREATE TABLE small (id INT PRIMARY KEY, amount DECIMAL(12, 2), at DATETIME) ENGINE = InnoDB")
        .expect("it is made");
    conn.query_drop("INSERT INTO small VALUES (1, 10, '2026-01-01 00:00:01'), (2, -0.5, NULL)").expect("rows fit");
}

fn add(client: &mut MysqlClient, cents: i64, id: i64) -> Result<u64, ClientError> {
    let mut batch = Batch::default();
    batch.call(ADD, &[Value::Int(cents), Value::Int(id)]);
    client.execute(&mut batch)?;
    Ok(batch.affected(0))
}

#[test]
fn money_is_read_as_cents_and_dates_as_microseconds() {
    let Some(target) = target("values") else { return };
    small_table(&target);
    let mut client = small_client(&target);
    assert_eq!(add(&mut client, -1_234_567, 1), Ok(1));
    assert_eq!(add(&mut client, 0, 2), Ok(1), "a row that stays as it was is found all the same");
    assert_eq!(add(&mut client, 1, 3), Ok(0));
    let mut batch = Batch::default();
    (1..=3).for_each(|id| _ = batch.call(READ, &[Value::Int(id)]));
    client.execute(&mut batch).expect("they are read");
    assert_eq!(batch.value(0, 2, 0, 0), Value::Int(-1_233_567));
    assert_eq!(batch.value(0, 2, 0, 1), Value::Int(1_767_225_601_000_000));
    assert_eq!((batch.value(1, 2, 0, 0), batch.value(1, 2, 0, 1)), (Value::Int(-50), Value::Null));
    assert_eq!((batch.rows(2), client.rows_returned()), (0, 2));
    drop_database(&target);
}

#[test]
fn the_victim_of_a_deadlock_is_told_to_try_again_and_can() {
    let Some(target) = target("deadlock") else { return };
    small_table(&target);
    let (mut one_client, mut other) = (small_client(&target), small_client(&target));
    one_client.begin(false).expect("it begins");
    other.begin(false).expect("it begins");
    add(&mut one_client, 100, 1).expect("the row is free");
    add(&mut other, 100, 2).expect("the row is free");
    let results = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| add(&mut one_client, 100, 2));
        std::thread::sleep(Duration::from_millis(300));
        let second = add(&mut other, 100, 1);
        if second.is_ok() {
            other.commit().expect("it commits");
        }
        (waiting.join().expect("it ends"), second)
    });
    let victims =
        [&results.0, &results.1].iter().filter(|result| matches!(result, Err(ClientError::Retry { .. }))).count();
    assert_eq!(victims, 1, "{results:?}");
    let (victim, survivor) =
        if results.0.is_err() { (&mut one_client, &mut other) } else { (&mut other, &mut one_client) };
    survivor.commit().expect("it commits, again perhaps");
    victim.rollback().expect("nothing is left to roll back");
    victim.begin(false).expect("it begins");
    assert_eq!(add(victim, 100, 1), Ok(1));
    victim.commit().expect("it commits");
    drop((one_client, other));
    drop_database(&target);
}

#[test]
fn a_connection_that_was_killed_is_lost() {
    let Some(target) = target("lost") else { return };
    small_table(&target);
    let mut client = small_client(&target);
    let mut control = connect(&target).expect("the server is there");
    control.query_drop(format!("KILL {}", client.connection_id())).expect("it may be killed");
    std::thread::sleep(Duration::from_millis(200));
    let error = add(&mut client, 1, 1).expect_err("it is gone");
    assert!(matches!(error, ClientError::Lost { .. }), "{error:?}");
    drop_database(&target);
}

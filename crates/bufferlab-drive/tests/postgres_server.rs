//! Tests of the client and the loader with a real PostgreSQL server, which `support/postgres_server.rs` names.

#[path = "support/postgres_server.rs"]
mod server;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bufferlab_drive::data::Data;
use bufferlab_drive::dialect::{RowUse, Statements};
use bufferlab_drive::failure::FailureKind;
use bufferlab_drive::postgres::client::PostgresClient;
use bufferlab_drive::postgres::control::{Control, Reader};
use bufferlab_drive::postgres::loader::load;
use bufferlab_drive::postgres::startup::connect;
use bufferlab_drive::postgres::wire::Silence;
use bufferlab_drive::postgres::{DIALECT, session_sql};
use bufferlab_drive::server::Sending;
use bufferlab_drive::server::job::Load;
use bufferlab_drive::server::target::Target;
use bufferlab_workload::client::{Batch, Client, ClientError, StatementId, StatementSpec, Value, Workload};
use bufferlab_workload::hot_rows::{HotRowsConfig, HotRowsDriver, HotRowsPopulation, Layout};
use bufferlab_workload::script::{Script, ScriptWorkload};
use bufferlab_workload::tpcc::population::TpccPopulation;
use bufferlab_workload::tpcc::schema::TableId;
use bufferlab_workload::tpcc::{TpccConfig, TpccDriver};

use server::{checksums, create_database, drop_database, loaded, one, target};

const TPCC_TABLES: [&str; 9] =
    ["item", "warehouse", "district", "stock", "customer", "history", "orders", "new_order", "order_line"];

fn tpcc(run_seed: u64) -> TpccConfig {
    TpccConfig::new(1, 7, run_seed).expect("the scale is valid")
}

fn client(target: &Target, workload: &mut dyn Workload, sending: Sending) -> PostgresClient {
    let connection = connect(target, Silence::Fatal).expect("the database is there");
    PostgresClient::of_workload(connection, workload, sending, Arc::default()).expect("every statement is prepared")
}

#[test]
fn a_load_counts_its_rows_packs_its_pages_and_is_the_same_each_time() {
    let (Some(first), Some(second)) = (target("load"), target("load_again")) else { return };
    let (one_load, other) =
        (loaded(&first, TpccPopulation::new(tpcc(0))), loaded(&second, TpccPopulation::new(tpcc(0))));
    println!("COPY {:.0} rows/s", one_load.rows as f64 / one_load.seconds);
    assert_eq!(one_load.tables, other.tables);
    let rows = |table: TableId| one_load.tables.iter().find(|(name, _)| name == table.name()).map(|(_, rows)| *rows);
    assert_eq!((rows(TableId::Stock), rows(TableId::NewOrder)), (Some(100_000), Some(9_000)));
    for (name, rows) in &one_load.tables {
        assert_eq!(one(&first, &format!("SELECT count(*) FROM {name}")), rows.to_string(), "{name}");
        let pages = format!("SELECT pg_relation_size('{name}')");
        assert_eq!(one(&first, &pages), one(&second, &pages), "{name}");
    }
    assert_eq!(checksums(&first, &TPCC_TABLES), checksums(&second, &TPCC_TABLES));
    assert!(one_load.bytes > 50_000_000, "{} bytes", one_load.bytes);
    let indexes = "SELECT count(*) FROM pg_indexes WHERE schemaname = 'public'";
    assert_eq!(one(&first, indexes), "10");
    // Rows per page by the layout of pages: 8168 bytes divided by the row's bytes, rounded up to a multiple of 8, plus
    // 4.
    let per_page = "SELECT max(n) FROM (SELECT count(*) AS n FROM stock GROUP BY (ctid::text::point)[0]::int) AS pages";
    assert_eq!(one(&first, per_page), "24");
    let refused = load(
        &Load {
            target: first.clone(),
            data: TpccPopulation::new(tpcc(0)).into(),
            threads: 1,
            storage_engine: None,
            form: None,
        },
        &AtomicBool::new(false),
        &mut |_| {},
    );
    assert_eq!(refused.expect_err("it has tables").kind, FailureKind::Usage);
    drop_database(&first);
    drop_database(&second);
}

#[test]
fn a_cancelled_load_ends_soon() {
    let Some(target) = target("cancelled") else { return };
    let job = Load {
        target: target.clone(),
        data: TpccPopulation::new(tpcc(0)).into(),
        threads: 2,
        storage_engine: None,
        form: None,
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

#[test]
fn a_setup_section_is_executed_with_its_values() {
    let Some(target) = target("setup") else { return };
    let text = "-- setup\n\\set n 40\n\\set less -2\nCREATE TABLE t (id int PRIMARY KEY, n int);\n\
        INSERT INTO t SELECT i, i -:less FROM generate_series(1, :n) AS i;\n-- transaction: read\nSELECT n FROM t WHERE id = 1;\n";
    let script = Script::parse("test.sql", text, &[]).expect("it is a script");
    let job = Load {
        target: target.clone(),
        data: Data { tables: None, setup: Some(script) },
        threads: 1,
        storage_engine: None,
        form: None,
    };
    let done = load(&job, &AtomicBool::new(false), &mut |_| {}).expect("it is executed");
    assert_eq!(done.tables, [("t".to_owned(), 40)]);
    assert_eq!(one(&target, "SELECT sum(n - id) FROM t"), "80");
    let text = "-- setup\nSELECT 1 FROM nowhere;\n-- transaction: read\nSELECT 1;\n";
    let script = Script::parse("test.sql", text, &[]).expect("it is a script");
    drop_database(&target);
    let job = Load {
        target: target.clone(),
        data: Data { tables: None, setup: Some(script) },
        threads: 1,
        storage_engine: None,
        form: None,
    };
    let failure = load(&job, &AtomicBool::new(false), &mut |_| {}).expect_err("there is no such table");
    assert_eq!((failure.kind, failure.place.as_str()), (FailureKind::Usage, "test.sql:2"), "{failure}");
    drop_database(&target);
}

/// Executes transactions of one driver. Returns their outputs as text, and the client.
fn run(target: &Target, sending: Sending, transactions: usize) -> (Vec<String>, PostgresClient) {
    let mut driver = TpccDriver::new(tpcc(3), 0, 1).expect("there is such a driver");
    let mut client = client(target, &mut driver, sending);
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
        loaded(target, TpccPopulation::new(tpcc(0)));
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
    let (one_by_one, together) = (spec_client.round_trips(), batched_client.round_trips());
    println!(
        "round trips per transaction: spec {:.1}, batched {:.1}",
        per(one_by_one, transactions),
        per(together, transactions)
    );
    assert!(together * 4 < one_by_one, "{together} of {one_by_one} round trips");
    assert_eq!(spec_client.rows_returned(), batched_client.rows_returned());
    consistent(&spec);
    consistent(&batched);
    drop((spec_client, batched_client));
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
        "SELECT count(*) FROM warehouse WHERE w_ytd <> (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)",
        "SELECT count(*) FROM district WHERE d_next_o_id - 1 <> \
         (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)",
        "SELECT count(*) FROM (SELECT max(no_o_id) - min(no_o_id) + 1 - count(*) AS gap FROM new_order \
         GROUP BY no_w_id, no_d_id) AS gaps WHERE gap <> 0",
        "SELECT (SELECT sum(o_ol_cnt) FROM orders) - (SELECT count(*) FROM order_line)",
        "SELECT count(*) FROM warehouse WHERE w_ytd <> (SELECT sum(h_amount) FROM history WHERE h_w_id = w_id)",
        "SELECT count(*) FROM district WHERE d_ytd <> \
         (SELECT sum(h_amount) FROM history WHERE h_w_id = d_w_id AND h_d_id = d_id)",
        "SELECT (SELECT sum(c_balance + c_ytd_payment) FROM customer) - \
         (SELECT sum(ol_amount) FROM order_line WHERE ol_delivery_d IS NOT NULL)",
    ];
    for sql in conditions {
        assert_eq!(one(target, sql).parse::<f64>().expect("a number"), 0.0, "{sql}");
    }
}

#[test]
fn every_statement_reaches_its_rows_through_an_index() {
    let Some(target) = target("plans") else { return };
    loaded(&target, TpccPopulation::new(tpcc(0)));
    let mut driver = TpccDriver::new(tpcc(3), 0, 1).expect("there is such a driver");
    let statements = DIALECT.statements(&mut driver).expect("the dialect is whole");
    let mut control = Control::open(&target).expect("the database is there");
    control.execute("analyzing", "VACUUM ANALYZE").expect("it is allowed");
    control.execute("setting", session_sql(&mut driver)).expect("it is allowed");
    for (at, (spec, text)) in statements.specs.iter().zip(&statements.texts).enumerate() {
        let text = text.trim_end().trim_end_matches(';');
        control.execute("preparing", &format!("PREPARE s{at} AS {text}")).expect("it compiles");
        let nulls = vec!["NULL"; spec.parameters].join(", ");
        let explain = if nulls.is_empty() {
            format!("EXPLAIN EXECUTE s{at}")
        } else {
            format!("EXPLAIN EXECUTE s{at} ({nulls})")
        };
        let plan: Vec<String> = control
            .rows("explaining", &explain)
            .expect("it has a plan")
            .into_iter()
            .filter_map(|mut row| row.swap_remove(0))
            .collect();
        let plan = plan.join("\n");
        let indexed = plan.contains("Index Scan") || plan.contains("Index Only Scan") || plan.starts_with("Insert on");
        let other = ["Seq Scan", "Bitmap", "Sort", "Hash", "Merge"].into_iter().find(|node| plan.contains(node));
        let distinct = spec.name == "count_low_stock" && other == Some("Sort");
        assert!(indexed && (other.is_none() || distinct), "{}:\n{plan}", spec.name);
        for index in ["customer_by_name", "orders_by_customer"] {
            let meant = match spec.name.as_ref() {
                "list_customers_by_name" => "customer_by_name",
                "read_last_order" => "orders_by_customer",
                _ => "",
            };
            assert_eq!(plan.contains(index), meant == index, "{}:\n{plan}", spec.name);
        }
    }
    drop(control);
    drop_database(&target);
}

#[test]
fn the_hot_rows_of_a_loaded_table_are_read_and_updated() {
    let Some(target) = target("hot_rows") else { return };
    let population = HotRowsPopulation::new(20_000, 5).expect("the scale is valid");
    assert_eq!(loaded(&target, population).rows, 20_000);
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
        let mut client = client(&target, &mut driver, sending);
        while driver.prefill_step(&mut client).expect("every hot row is there") {}
        assert_eq!(client.rows_returned(), 500);
        for _ in 0..300 {
            driver.plan();
            driver.execute(&mut client).expect("the row is there");
        }
    }
    drop_database(&target);
}

#[test]
fn a_script_takes_values_of_any_type_and_its_errors_name_their_line() {
    let Some(target) = target("script") else { return };
    create_database(&target);
    let mut control = Control::open(&target).expect("it was made");
    control
        .execute(
            "making",
            "CREATE TABLE t (id int, big bigint, r real, d double precision, n numeric, s text, at timestamp)",
        )
        .expect("it is made");
    let text = "-- transaction: write\n\\set i 7\n\\set x 2.5\nBEGIN;\n\
        INSERT INTO t (id, big, r, d, n, s) VALUES (:i, :i, :x, :x, :x, :i);\n\
        SELECT * FROM t WHERE id = :i AND n = :x LIMIT :i;\nCOMMIT;\n";
    let play = |text: &str| {
        let script = Script::parse("test.sql", text, &[]).expect("it is a script");
        let mut workload = ScriptWorkload::new(script, 1).expect("it has a transaction");
        let mut client = client(&target, &mut workload, Sending::Batched);
        workload.plan();
        workload.execute(&mut client).map(|_| client.rows_returned())
    };
    assert_eq!(play(text), Ok(1));
    assert_eq!(one(&target, "SELECT concat_ws(' ', id, big, r, d, n, s) FROM t"), "7 7 2.5 2.5 2.5 7");
    for (wrong, words) in [
        ("-- transaction: wrong\n\\set i 3000000000\nSELECT * FROM t WHERE id = :i;\n", "integer"),
        ("-- transaction: wrong\n\\set i 7\nSELECT * FROM t WHERE at < :i;\n", "timestamp"),
        ("-- transaction: wrong\nSELECT 1;\nCOPY t FROM STDIN;\n", "no data"),
    ] {
        match play(wrong) {
            Err(ClientError::Script { message, place, .. }) => {
                assert!(message.contains(words) && place == "test.sql:3", "{place}: {message}");
            }
            other => panic!("{wrong}: {other:?}"),
        }
    }
    drop(control);
    drop_database(&target);
}

const READ: StatementId = StatementId(0);
const ADD: StatementId = StatementId(1);

/// Returns a client over a table of two rows, for cases that no workload produces on purpose.
fn small_client(target: &Target) -> PostgresClient {
    let statements = Statements {
        place: "this test".to_owned(),
        specs: vec![
            StatementSpec { name: Cow::Borrowed("read"), parameters: 1, columns: 2 },
            StatementSpec { name: Cow::Borrowed("add"), parameters: 2, columns: 0 },
        ],
        texts: vec![
            "SELECT amount, at FROM small WHERE id = $1".to_owned(),
            "UPDATE small SET amount = amount + $1::bigint * 0.01 WHERE id = $2;".to_owned(),
        ],
        rows: RowUse::Kept,
    };
    let connection = connect(target, Silence::Fatal).expect("the database is there");
    PostgresClient::new(connection, &statements, Sending::Batched, Arc::default()).expect("both are prepared")
}

fn small_table(target: &Target) {
    create_database(target);
    let mut control = Control::open(target).expect("it was made");
    control
        .execute(
            "making a table",
            "CREATE TABLE small (id int PRIMARY KEY, amount numeric(12, 2), at timestamp); \
             INSERT INTO small VALUES (1, 10, '2026-01-01 00:00:01.000002'), (2, -0.5, NULL)",
        )
        .expect("it is made");
}

fn add(client: &mut PostgresClient, cents: i64, id: i64) -> Result<u64, ClientError> {
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
    assert_eq!(batch.value(0, 2, 0, 1), Value::Int(1_767_225_601_000_002));
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
    victim.rollback().expect("it is rolled back");
    victim.rollback().expect("nothing is left to roll back");
    if results.0.is_err() {
        // The other transaction has committed in its own thread.
    } else {
        survivor.commit().expect("it commits");
    }
    victim.begin(false).expect("it begins");
    assert_eq!(add(victim, 100, 1), Ok(1));
    victim.commit().expect("it commits");
    drop((one_client, other));
    drop_database(&target);
}

#[test]
fn a_connection_that_was_ended_is_lost() {
    let Some(target) = target("lost") else { return };
    small_table(&target);
    let mut client = small_client(&target);
    let mut control = Control::open(&target).expect("the server is there");
    let process = client.handle().expect("it has one").process_id;
    control.execute("ending", &format!("SELECT pg_terminate_backend({process})")).expect("it may be ended");
    std::thread::sleep(Duration::from_millis(200));
    let error = add(&mut client, 1, 1).expect_err("it is gone");
    assert!(matches!(&error, ClientError::Lost { message } if message.contains("57P01")), "{error:?}");
    drop((client, control));
    drop_database(&target);
}

#[test]
fn who_reads_counters_for_long_keeps_no_old_rows_alive() {
    let Some(target) = target("reader") else { return };
    small_table(&target);
    let control = Control::open_to_read(&target).expect("the database is there");
    let mut reader = Reader::new(control, &[("sum", "SELECT sum(id) FROM small")]).expect("it is prepared");
    assert_eq!(reader.numbers("sum"), Ok(vec![Some(3)]));
    let snapshots = "SELECT count(*), count(backend_xmin) FROM pg_stat_activity \
        WHERE datname = current_database() AND state = 'idle in transaction'";
    let mut control = Control::open(&target).expect("the database is there");
    let counted = control.rows("counting", snapshots).expect("it answers");
    assert_eq!(counted, [["1", "0"].map(|count| Some(count.to_owned()))], "it is in a transaction without a snapshot");
    control.execute("changing", "UPDATE small SET id = id + 1 WHERE id = 2").expect("it is allowed");
    assert_eq!(reader.numbers("sum"), Ok(vec![Some(4)]), "each reading sees its own moment");
    drop((reader, control));
    drop_database(&target);
}

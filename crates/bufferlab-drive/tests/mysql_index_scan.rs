//! Tests of Q1 on a real MySQL or MariaDB server, which `support/mysql_server.rs` names: both plans give the right
//! answer and are the named plans.

#[path = "support/mysql_server.rs"]
#[allow(dead_code, reason = "another test uses the rest of it")]
mod server;

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bufferlab_drive::event::Event;
use bufferlab_drive::failure::{Failure, FailureKind};
use bufferlab_drive::finished::Finished;
use bufferlab_drive::gate::GateEnd;
use bufferlab_drive::job::{Limit, Pace};
use bufferlab_drive::mysql::connection::connect;
use bufferlab_drive::mysql::run::run;
use bufferlab_drive::probes::Asked;
use bufferlab_drive::server::Sending;
use bufferlab_drive::server::encode::Form;
use bufferlab_drive::server::job::Run;
use bufferlab_drive::server::target::Target;
use bufferlab_workload::findings::Findings;
use bufferlab_workload::index_scan::{IndexScanPopulation, ScaleFactor, TableSet};
use bufferlab_workload::plan::Plan;
use serde_json::json;

use server::{checksums, drop_database, loaded, one, target};

fn scale() -> ScaleFactor {
    ScaleFactor::new(0.01).expect("the scale is valid")
}

fn job(target: &Target, plan: Plan, transactions: u64) -> Run {
    let workload = json!({
        "name": "index_scan", "scale_factor": 0.01, "tables": "lineitem", "seed": 1, "plan": plan.name(),
        "ship_from": "1993-01-01", "ship_until": "1998-09-03",
    });
    Run {
        target: target.clone(),
        server_pid: None,
        datadir: None,
        may_change_settings: true,
        connections: 2,
        sending: Sending::Batched,
        frames: 512,
        storage_engine: None,
        workload: serde_json::from_value(workload).expect("a workload"),
        program: None,
        pace: Pace::Closed,
        phases: Vec::new(),
        warm_up: Limit { transactions: 0, seconds: 60.0 }.into(),
        measure: Limit { transactions, seconds: 600.0 },
        sample_interval: Duration::from_millis(50),
        probes: Asked::default(),
    }
}

fn played(job: &Run, cancelled: &AtomicBool) -> (Result<Finished, Failure>, usize) {
    let samples = Mutex::new(0);
    let sink = |event: Event| {
        let Event::Sample { edge: None, values, .. } = event else { return };
        assert!(values.iter().any(|reading| reading.metric == "cpu_idle_us" && reading.count.is_some()));
        *samples.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    };
    let outcome = run(job, &sink, cancelled);
    (outcome, samples.into_inner().unwrap_or_else(PoisonError::into_inner))
}

#[test]
fn both_forms_of_loading_give_the_same_lines_and_both_plans_the_right_answer() {
    let (Some(lines), Some(tuples)) = (target("lineitem"), target("lineitem_tuples")) else { return };
    for (target, form) in [(&lines, Form::Lines), (&tuples, Form::Tuples)] {
        let tables = IndexScanPopulation::new(scale(), TableSet::LineItem);
        assert_eq!(loaded(target, tables, Some(form)).tables, [("lineitem".to_owned(), 60_175)]);
    }
    assert_eq!(checksums(&lines, &["lineitem"]), checksums(&tuples, &["lineitem"]));
    drop_database(&tuples);
    let range = "l_shipdate >= '1993-01-01' AND l_shipdate < '1998-09-03'";
    let rows: u64 = one(&lines, &format!("SELECT COUNT(*) FROM lineitem WHERE {range}"));
    for plan in [Plan::IndexScan, Plan::Sequential] {
        let (finished, samples) = played(&job(&lines, plan, 3), &AtomicBool::new(false));
        let finished = finished.expect("the plan is taken and the answers are right");
        assert_eq!((finished.warm_up.gate, finished.measured.transactions), (Some(GateEnd::Cold), 3));
        let Findings { facts, counts, .. } = finished.findings;
        let plan_text = facts["plan_text"].as_str().unwrap_or_default();
        assert_eq!((&facts["plan"], &facts["rows_in_range"]), (&json!(plan.name()), &json!(rows)));
        assert_eq!(counts["answers_checked"], 3);
        assert!(plan_text.contains("\"table_name\": \"lineitem\""), "{plan_text}");
        assert!(samples > 0);
    }
    the_rest_is_refused(&lines);
    drop_database(&lines);
}

fn the_rest_is_refused(target: &Target) {
    let refused =
        |plan| played(&job(target, plan, 1), &AtomicBool::new(false)).0.map(|_| ()).expect_err("it cannot be");
    let bitmap = refused(Plan::Bitmap);
    assert_eq!(bitmap.kind, FailureKind::Usage, "{bitmap}");
    let cancelled = AtomicBool::new(false);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            cancelled.store(true, Ordering::Relaxed);
        });
        let (finished, _) = played(&job(target, Plan::IndexScan, 1_000_000), &cancelled);
        assert!(finished.expect("it was stopped").interrupted);
    });
    assert!(begun.elapsed() < Duration::from_secs(30));
    let mut conn = connect(target).expect("the database is there");
    conn.query_drop("UPDATE lineitem SET l_tax = l_tax + 0.01 WHERE l_orderkey = 1").expect("it is allowed");
    let wrong = refused(Plan::Sequential);
    assert_eq!(wrong.kind, FailureKind::Data, "{wrong}");
    assert!(wrong.what.contains("sum_charge in millionths"), "{wrong}");
    // The index's name is not enough: this index cannot be searched for a range of dates.
    conn.query_drop("ALTER TABLE lineitem DROP INDEX lineitem_by_shipdate").expect("it is allowed");
    conn.query_drop("ALTER TABLE lineitem ADD INDEX lineitem_by_shipdate (l_partkey)").expect("it is allowed");
    let other = refused(Plan::IndexScan);
    assert!(other.what.contains("asks for plan = index_scan"), "{other}");
}

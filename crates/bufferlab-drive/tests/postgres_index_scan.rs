//! Tests of Q1 on a real PostgreSQL server, which `support/postgres_server.rs` names: all three plans give the right
//! answer and are the named plans.

#[path = "support/postgres_server.rs"]
#[allow(dead_code, reason = "another test uses the rest of it")]
mod server;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bufferlab_drive::event::Event;
use bufferlab_drive::failure::{Failure, FailureKind};
use bufferlab_drive::finished::Finished;
use bufferlab_drive::gate::GateEnd;
use bufferlab_drive::job::{Limit, Pace};
use bufferlab_drive::postgres::control::Control;
use bufferlab_drive::postgres::run::run;
use bufferlab_drive::probes::Asked;
use bufferlab_drive::server::Sending;
use bufferlab_drive::server::job::Run;
use bufferlab_drive::server::target::Target;
use bufferlab_workload::findings::Findings;
use bufferlab_workload::index_scan::{IndexScanPopulation, ScaleFactor, TableSet};
use bufferlab_workload::plan::Plan;
use serde_json::json;

use server::{drop_database, loaded, one, target};

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
        sending: Sending::Spec,
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

fn played(job: &Run, cancelled: &AtomicBool) -> Result<Finished, Failure> {
    let sink = |event: Event| {
        let Event::Sample { values, .. } = event else { return };
        assert!(values.iter().any(|reading| reading.metric == "cpu_idle_us" && reading.count.is_some()));
    };
    run(job, &sink, cancelled)
}

#[test]
fn all_plans_give_the_right_answer_and_everything_else_is_an_error() {
    let Some(target) = target("lineitem") else { return };
    let tables = loaded(&target, IndexScanPopulation::new(scale(), TableSet::All)).tables;
    assert_eq!(tables.len(), 8);
    assert_eq!(tables.last(), Some(&("lineitem".to_owned(), 60_175)));
    let range = "l_shipdate >= '1993-01-01' AND l_shipdate < '1998-09-03'";
    let rows = one(&target, &format!("SELECT count(*) FROM lineitem WHERE {range}"));
    for (plan, node) in [
        (Plan::IndexScan, "\"Index Scan\""),
        (Plan::Sequential, "\"Seq Scan\""),
        (Plan::Bitmap, "\"Bitmap Heap Scan\""),
    ] {
        let finished = played(&job(&target, plan, 3), &AtomicBool::new(false));
        let finished = finished.expect("the plan is taken and the answers are right");
        assert_eq!((finished.warm_up.gate, finished.measured.transactions), (Some(GateEnd::Cold), 3));
        let Findings { facts, counts, .. } = finished.findings;
        let plan_text = facts["plan_text"].as_str().unwrap_or_default();
        assert_eq!((&facts["plan"], facts["rows_in_range"].to_string()), (&json!(plan.name()), rows.clone()));
        assert_eq!(counts["answers_checked"], 3);
        assert!(plan_text.contains(node), "{plan_text}");
    }
    a_query_is_stopped_in_its_middle(&target);
    what_is_wrong_is_refused(&target);
    drop_database(&target);
}

fn a_query_is_stopped_in_its_middle(target: &Target) {
    let cancelled = AtomicBool::new(false);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            cancelled.store(true, Ordering::Relaxed);
        });
        let finished = played(&job(target, Plan::IndexScan, 1_000_000), &cancelled);
        assert!(finished.expect("it was stopped").interrupted);
    });
    assert!(begun.elapsed() < Duration::from_secs(30));
}

fn what_is_wrong_is_refused(target: &Target) {
    let refused = |plan| {
        let finished = played(&job(target, plan, 1), &AtomicBool::new(false));
        finished.map(|_| ()).expect_err("it cannot be")
    };
    let change = |sql: &str| {
        let mut control = Control::open(target).expect("the server is there");
        control.execute("changing the table", sql).expect("it is allowed");
    };
    change("UPDATE lineitem SET l_tax = l_tax + 0.01 WHERE l_orderkey = 1");
    let wrong = refused(Plan::Sequential);
    assert_eq!(wrong.kind, FailureKind::Data, "{wrong}");
    assert!(wrong.what.contains("sum_charge in millionths"), "{wrong}");
    // The index's name is not enough: this index cannot be searched for a range of dates.
    change("DROP INDEX lineitem_by_shipdate");
    change("CREATE INDEX lineitem_by_shipdate ON lineitem (l_partkey)");
    for plan in [Plan::IndexScan, Plan::Bitmap] {
        let other = refused(plan);
        assert!(other.what.contains("asks for plan") && other.what.contains("Seq Scan"), "{other}");
    }
}

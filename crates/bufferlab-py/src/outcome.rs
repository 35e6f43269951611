//! Answers of the core in the form in which Python receives them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bufferlab_load::findings::Findings;
use bufferlab_load::finished::{Actual, Finished, Part, TypeLatency};
use bufferlab_load::gate::GateEnd;
use bufferlab_load::recorder::Bucket;
use bufferlab_load::sqlite::direct_io::{DirectIo, filesystem_name};
use bufferlab_load::sqlite::loader::{LoadProgress, Loaded};
use bufferlab_load::sqlite::shape::{Shape, Tree};
use bufferlab_workload::script::Script;
use bufferlab_workload::tpcc::InputCounts;
use bufferlab_workload::tpcc::random::NuRandConstants;
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
#[serde(untagged)]
enum Setting {
    Int(i64),
    Text(String),
}

#[derive(Serialize)]
struct WarmUp {
    gate: Option<&'static str>,
    seconds: f64,
    transactions: u64,
    misses: u64,
}

#[derive(Serialize)]
struct Measured {
    seconds: f64,
    transactions: u64,
}

/// A phase after the measured window.
#[derive(Serialize)]
struct PhaseOutcome {
    name: String,
    seconds: f64,
    transactions: u64,
}

#[derive(Serialize)]
struct Latency {
    transaction_type: String,
    time: &'static str,
    /// (low, high, count), both bounds inclusive, in microseconds.
    buckets: Vec<(f64, f64, u64)>,
    max_us: Option<f64>,
    mean_us: Option<f64>,
}

#[derive(Serialize)]
struct Clock {
    wall_start: String,
    monotonic_start_ns: u64,
}

/// What a workload drew from its seeds, over warm-up and window.
#[derive(Serialize)]
#[serde(untagged)]
enum Drawn {
    Tpcc(TpccDrawn),
    HotRows {
        hot_rows: u32,
        /// Not counted here: the shape of the database and the model say how many to expect.
        distinct_leaf_pages: Option<u64>,
    },
    IndexScan {
        /// As asked for, and as the engine said before the window.
        plan: &'static str,
        /// The engine's words for it.
        plan_text: String,
        rows_in_range: u64,
        /// Answers of Q1 that were checked and right, those of the warm-up included.
        answers_checked: u64,
    },
}

/// TPC-C's constants, and how often each choice came up.
#[derive(Serialize)]
struct TpccDrawn {
    nurand_c_load_last_name: u32,
    nurand_c_run_last_name: u32,
    nurand_c_customer_id: u32,
    nurand_c_item_id: u32,
    new_orders: u64,
    unused_items: u64,
    order_lines: u64,
    remote_lines: u64,
    payments: u64,
    remote_payments: u64,
    payments_by_name: u64,
}

impl TpccDrawn {
    fn new(constants: &NuRandConstants, inputs: &InputCounts) -> Self {
        TpccDrawn {
            nurand_c_load_last_name: constants.load_last_name,
            nurand_c_run_last_name: constants.run_last_name,
            nurand_c_customer_id: constants.run_customer_id,
            nurand_c_item_id: constants.run_item_id,
            new_orders: inputs.new_orders,
            unused_items: inputs.unused_items,
            order_lines: inputs.order_lines,
            remote_lines: inputs.remote_lines,
            payments: inputs.payments,
            remote_payments: inputs.remote_payments,
            payments_by_name: inputs.payments_by_name,
        }
    }
}

/// A finished run.
#[derive(Serialize)]
pub struct RunOutcome {
    status: &'static str,
    actual: BTreeMap<&'static str, Setting>,
    warm_up: WarmUp,
    measured: Measured,
    phases: Vec<PhaseOutcome>,
    latency: Vec<Latency>,
    delivered_orders: Vec<(u32, u32, u64)>,
    drawn: Option<Drawn>,
    engine_version: String,
    /// By probe: how its table came about, and where the files are.
    recorded: BTreeMap<&'static str, Value>,
    clock: Clock,
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

impl From<TypeLatency> for Latency {
    fn from(latency: TypeLatency) -> Self {
        let bucket = |bucket: &Bucket| (us(bucket.low_ns), us(bucket.high_ns), bucket.count);
        Latency {
            buckets: latency.buckets.iter().map(bucket).collect(),
            transaction_type: latency.transaction_type,
            time: latency.time,
            max_us: latency.max_ns.map(us),
            mean_us: latency.mean_ns.map(|ns| ns / 1000.0),
        }
    }
}

impl From<Finished> for RunOutcome {
    fn from(finished: Finished) -> Self {
        let setting = |actual| match actual {
            Actual::Int(int) => Setting::Int(int),
            Actual::Text(text) => Setting::Text(text),
        };
        let phase = |(name, part): (Arc<str>, Part)| PhaseOutcome {
            name: name.as_ref().to_owned(),
            seconds: part.seconds,
            transactions: part.transactions,
        };
        let (drawn, delivered_orders) = match finished.findings {
            Findings::None => (None, Vec::new()),
            Findings::HotRows { hot_rows } => {
                (Some(Drawn::HotRows { hot_rows, distinct_leaf_pages: None }), Vec::new())
            }
            Findings::IndexScan { plan, plan_text, rows, answers } => {
                let drawn =
                    Drawn::IndexScan { plan: plan.name(), plan_text, rows_in_range: rows, answers_checked: answers };
                (Some(drawn), Vec::new())
            }
            Findings::Tpcc { constants, inputs, delivered_orders } => {
                (Some(Drawn::Tpcc(TpccDrawn::new(&constants, &inputs))), delivered_orders)
            }
        };
        RunOutcome {
            status: if finished.interrupted { "interrupted" } else { "ok" },
            actual: finished.actual.into_iter().map(|(name, actual)| (name, setting(actual))).collect(),
            warm_up: WarmUp {
                gate: finished.gate.map(GateEnd::name),
                seconds: finished.warm_up.seconds,
                transactions: finished.warm_up.transactions,
                misses: finished.warm_up_misses,
            },
            measured: Measured { seconds: finished.measured.seconds, transactions: finished.measured.transactions },
            phases: finished.phases.into_iter().map(phase).collect(),
            latency: finished.latencies.into_iter().map(Latency::from).collect(),
            delivered_orders,
            drawn,
            engine_version: finished.engine_version,
            recorded: finished.recorded.into_iter().map(|table| (table.probe, table.told)).collect(),
            clock: Clock { wall_start: finished.clock.wall_utc, monotonic_start_ns: finished.clock.monotonic_ns },
        }
    }
}

#[derive(Serialize)]
struct TransactionFacts {
    name: String,
    weight: u32,
    statements: usize,
}

/// What a script holds, without running it.
#[derive(Serialize)]
pub struct ScriptFacts {
    transactions: Vec<TransactionFacts>,
    setup_statements: usize,
    /// Predefined variables that it refers to.
    variables_used: Vec<String>,
}

impl ScriptFacts {
    /// Of a script that was read.
    pub fn new(script: &Script) -> Self {
        let transactions = script.transactions().iter().map(|transaction| TransactionFacts {
            name: transaction.name.clone(),
            weight: transaction.weight,
            statements: transaction.statements,
        });
        ScriptFacts {
            transactions: transactions.collect(),
            setup_statements: script.setup_statements(),
            variables_used: script.variables_used().to_vec(),
        }
    }
}

/// A finished load.
#[derive(Serialize)]
pub struct LoadOutcome {
    rows: u64,
    seconds: f64,
    rows_per_s: f64,
    bytes: u64,
    tables: BTreeMap<String, u64>,
}

impl From<Loaded> for LoadOutcome {
    fn from(loaded: Loaded) -> Self {
        LoadOutcome {
            rows: loaded.rows,
            seconds: loaded.seconds,
            rows_per_s: loaded.rows as f64 / loaded.seconds,
            bytes: loaded.bytes,
            tables: loaded.tables.into_iter().collect(),
        }
    }
}

/// A load going on.
#[derive(Serialize)]
pub struct LoadEvent {
    event: &'static str,
    phase: &'static str,
    done: u64,
    total: u64,
    t_s: f64,
}

/// Passes a load's progress on, a few times a second.
pub struct LoadProgressEvents<F: FnMut(&LoadEvent)> {
    deliver: F,
    begun: Instant,
    last: Option<Instant>,
}

impl<F: FnMut(&LoadEvent)> LoadProgressEvents<F> {
    const INTERVAL: Duration = Duration::from_millis(250);

    /// Events go to `deliver`.
    pub fn new(deliver: F) -> Self {
        LoadProgressEvents { deliver, begun: Instant::now(), last: None }
    }

    /// Takes one report of the loader.
    pub fn report(&mut self, progress: LoadProgress) {
        if self.last.is_some_and(|last| last.elapsed() < Self::INTERVAL) {
            return;
        }
        self.last = Some(Instant::now());
        let t_s = self.begun.elapsed().as_secs_f64();
        let event = LoadEvent { event: "progress", phase: "load", done: progress.rows, total: progress.total, t_s };
        (self.deliver)(&event);
    }
}

/// What decides a loaded file beside scale, seed and page size.
#[derive(Serialize)]
pub struct LoadRecipe {
    /// Tables and indexes.
    pub schema_sql: String,
    /// Everything else.
    pub loader_version: u32,
}

/// One b-tree of a database.
#[derive(Serialize)]
struct TreeOutcome {
    name: String,
    table: String,
    kind: &'static str,
    rows: u64,
    leaf_pages: u64,
    interior_pages: u64,
    overflow_pages: u64,
    height: usize,
    level_pages: Vec<u64>,
    payload_bytes: u64,
    unused_bytes: u64,
}

impl From<Tree> for TreeOutcome {
    fn from(tree: Tree) -> Self {
        TreeOutcome {
            kind: tree.kind.name(),
            height: tree.level_pages.len(),
            name: tree.name,
            table: tree.table,
            rows: tree.rows,
            leaf_pages: tree.leaf_pages,
            interior_pages: tree.interior_pages,
            overflow_pages: tree.overflow_pages,
            level_pages: tree.level_pages,
            payload_bytes: tree.payload_bytes,
            unused_bytes: tree.unused_bytes,
        }
    }
}

/// The b-trees of a database.
#[derive(Serialize)]
pub struct ShapeOutcome {
    page_size_bytes: u64,
    pages: u64,
    free_pages: u64,
    trees: Vec<TreeOutcome>,
}

impl From<Shape> for ShapeOutcome {
    fn from(shape: Shape) -> Self {
        ShapeOutcome {
            page_size_bytes: shape.page_size_bytes,
            pages: shape.pages,
            free_pages: shape.free_pages,
            trees: shape.trees.into_iter().map(TreeOutcome::from).collect(),
        }
    }
}

/// What a trial of direct I/O showed.
#[derive(Serialize)]
pub struct DirectIoOutcome {
    honoured: bool,
    alignment_bytes: usize,
    reason: Option<String>,
    filesystem: String,
}

impl DirectIoOutcome {
    /// The trial in this directory.
    pub fn new(trial: &DirectIo, directory: &Path) -> Self {
        DirectIoOutcome {
            honoured: trial.honoured,
            alignment_bytes: trial.alignment_bytes,
            reason: (!trial.honoured).then(|| trial.reason.clone()),
            filesystem: filesystem_name(directory),
        }
    }
}

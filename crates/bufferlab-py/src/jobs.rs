//! Jobs as Python writes them, and their conversion into the core's types.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bufferlab_load::failure::{Failure, FailureKind};
use bufferlab_load::job::{Limit, Pace, PhaseJob, ScriptJob, Spacing, WorkloadJob};
use bufferlab_load::probes::Asked;
use bufferlab_load::sqlite::data::{Data, Tables};
use bufferlab_load::sqlite::job::Run;
use bufferlab_load::sqlite::knobs::{IoChoice, LockingMode, Pcache, SqliteKnobs, Synchronous};
use bufferlab_load::sqlite::loader::Load;
use bufferlab_model::PageSize;
use bufferlab_workload::hot_rows::{HotRowsConfig, HotRowsPopulation, Layout};
use bufferlab_workload::index_scan::{IndexScanConfig, IndexScanPopulation, Plan, ScaleFactor, TableSet, day_of};
use bufferlab_workload::script::Number;
use bufferlab_workload::tpcc::TpccConfig;
use bufferlab_workload::tpcc::random::Skew;
use pyo3::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::to_python;
use crate::outcome::{LoadRecipe, ScriptFacts};

pub(crate) fn unusable(what: String, place: &str) -> PyErr {
    to_python(Failure::new(FailureKind::Usage, what, place, "see `bufferlab list engines` for what is possible"))
}

/// Reads a job or a part of one; what is wrong with it is a usage failure.
pub(crate) fn parse<T: DeserializeOwned>(json: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| unusable(error.to_string(), "job"))
}

fn page_size(bytes: u64) -> PyResult<PageSize> {
    let allowed = "a page size is a power of two from 512 to 65,536 bytes";
    PageSize::new(bytes).ok_or_else(|| unusable(format!("{bytes} bytes: {allowed}"), "page_size"))
}

pub(crate) fn choice<T>(knob: &str, name: &str, value: Option<T>) -> PyResult<T> {
    value.ok_or_else(|| unusable(format!("{knob} has no value {name:?}"), knob))
}

/// TPC-C's scale, seeds and skew.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tpcc {
    warehouses: u32,
    load_seed: u64,
    /// Of the run; a load has none.
    #[serde(default)]
    seed: u64,
    /// Of the run; the specification's when there is none.
    skew: Option<String>,
}

impl Tpcc {
    fn typed(&self) -> PyResult<TpccConfig> {
        let config = TpccConfig::new(self.warehouses, self.load_seed, self.seed)
            .map_err(|error| unusable(error.to_string(), "workload"))?;
        let name = self.skew.as_deref().unwrap_or("spec");
        Ok(config.with_skew(choice("skew", name, Skew::from_name(name))?))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HotRows {
    rows: u32,
    /// Decides the loaded rows; a run takes them as they are.
    #[serde(rename = "load_seed")]
    _load_seed: u64,
    seed: u64,
    hot_rows: u32,
    layout: String,
    zipf: f64,
    update_percent: u32,
}

impl HotRows {
    fn typed(&self) -> PyResult<HotRowsConfig> {
        let config = HotRowsConfig {
            rows: self.rows,
            run_seed: self.seed,
            hot_rows: self.hot_rows,
            layout: choice("layout", &self.layout, Layout::from_name(&self.layout))?,
            zipf: self.zipf,
            update_percent: self.update_percent,
        };
        config.check().map_err(|error| unusable(error.to_string(), "workload"))?;
        Ok(config)
    }
}

/// What decides the data of the hot-row workload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotRowsTable {
    rows: u32,
    load_seed: u64,
}

impl HotRowsTable {
    fn typed(&self) -> PyResult<HotRowsPopulation> {
        HotRowsPopulation::new(self.rows, self.load_seed).map_err(|error| unusable(error.to_string(), "workload"))
    }
}

fn scale_factor(scale_factor: f64) -> PyResult<ScaleFactor> {
    ScaleFactor::new(scale_factor).map_err(|error| unusable(error.to_string(), "workload"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IndexScan {
    scale_factor: f64,
    /// Decides what was loaded; Q1 reads one of them.
    #[serde(rename = "tables")]
    _tables: String,
    /// Of the run's phases; nothing of the workload itself is drawn.
    seed: u64,
    plan: String,
    ship_from: String,
    ship_until: String,
}

impl IndexScan {
    fn typed(&self) -> PyResult<IndexScanConfig> {
        let day = |name: &str, text: &str| {
            day_of(text).ok_or_else(|| unusable(format!("{name} = {text:?} is no date such as 1998-09-03"), name))
        };
        let config = IndexScanConfig {
            scale_factor: scale_factor(self.scale_factor)?,
            from_day: day("ship_from", &self.ship_from)?,
            until_day: day("ship_until", &self.ship_until)?,
            plan: choice("plan", &self.plan, Plan::from_name(&self.plan))?,
        };
        config.check().map_err(|error| unusable(error.to_string(), "workload"))?;
        Ok(config)
    }
}

/// What decides the data of the index-scan workload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexScanTables {
    scale_factor: f64,
    tables: String,
}

impl IndexScanTables {
    fn typed(&self) -> PyResult<IndexScanPopulation> {
        let tables = choice("tables", &self.tables, TableSet::from_name(&self.tables))?;
        Ok(IndexScanPopulation::new(scale_factor(self.scale_factor)?, tables))
    }
}

/// A script's predefined variable: whole numbers stay whole.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
pub(crate) enum Variable {
    Int(i64),
    Real(f64),
}

fn numbers(variables: &BTreeMap<String, Variable>) -> Vec<(String, Number)> {
    let number = |variable: &Variable| match *variable {
        Variable::Int(int) => Number::Int(int),
        Variable::Real(real) => Number::Real(real),
    };
    variables.iter().map(|(name, variable)| (name.clone(), number(variable))).collect()
}

/// Reads a script and tries its expressions, without an engine.
pub fn check_script(source: &str, text: &str, variables_json: &str) -> PyResult<ScriptFacts> {
    let variables = numbers(&parse::<BTreeMap<String, Variable>>(variables_json)?);
    let read = || {
        let script = bufferlab_workload::script::Script::parse(source, text, &variables)?;
        script.check()?;
        Ok(ScriptFacts::new(&script))
    };
    crate::error::guarded(read)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    source: String,
    text: String,
    variables: BTreeMap<String, Variable>,
    #[serde(default)]
    seed: u64,
}

impl Script {
    fn typed(&self) -> ScriptJob {
        ScriptJob {
            source: self.source.clone(),
            text: self.text.clone(),
            seed: self.seed,
            variables: numbers(&self.variables),
        }
    }
}

/// A workload as a run takes it.
#[derive(Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub(crate) enum Workload {
    Tpcc(Tpcc),
    HotRows(HotRows),
    IndexScan(IndexScan),
    Script(Script),
}

impl Workload {
    pub(crate) fn seed(&self) -> u64 {
        match self {
            Workload::Tpcc(tpcc) => tpcc.seed,
            Workload::HotRows(hot_rows) => hot_rows.seed,
            Workload::IndexScan(index_scan) => index_scan.seed,
            Workload::Script(script) => script.seed,
        }
    }

    pub(crate) fn typed(&self) -> PyResult<WorkloadJob> {
        match self {
            Workload::Tpcc(tpcc) => Ok(WorkloadJob::Tpcc(tpcc.typed()?)),
            Workload::HotRows(hot_rows) => Ok(WorkloadJob::HotRows(hot_rows.typed()?)),
            Workload::IndexScan(index_scan) => Ok(WorkloadJob::IndexScan(index_scan.typed()?)),
            Workload::Script(script) => Ok(WorkloadJob::Script(script.typed())),
        }
    }
}

/// The tables of a workload as a load takes them.
#[derive(Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum LoadTables {
    Tpcc(Tpcc),
    HotRows(HotRowsTable),
    IndexScan(IndexScanTables),
}

impl LoadTables {
    fn typed(&self) -> PyResult<Tables> {
        match self {
            LoadTables::Tpcc(tpcc) => Ok(Tables::Tpcc(tpcc.typed()?)),
            LoadTables::HotRows(table) => Ok(Tables::HotRows(table.typed()?)),
            LoadTables::IndexScan(tables) => Ok(Tables::IndexScan(tables.typed()?)),
        }
    }
}

/// A script's setup section, and the tables it finds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    source: String,
    text: String,
    variables: BTreeMap<String, Variable>,
    data: Option<LoadTables>,
}

impl Setup {
    fn typed(&self) -> PyResult<Data> {
        let script = bufferlab_workload::script::Script::parse(&self.source, &self.text, &numbers(&self.variables))
            .map_err(|error| to_python(error.into()))?;
        Ok(Data { tables: self.data.as_ref().map(LoadTables::typed).transpose()?, setup: Some(script) })
    }
}

/// A workload as a load takes it.
#[derive(Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum LoadWorkload {
    Tpcc(Tpcc),
    HotRows(HotRowsTable),
    IndexScan(IndexScanTables),
    Script(Setup),
}

impl LoadWorkload {
    /// What it loads, in the core's types.
    pub fn typed(&self) -> PyResult<Data> {
        match self {
            LoadWorkload::Tpcc(tpcc) => Ok(Tables::Tpcc(tpcc.typed()?).into()),
            LoadWorkload::HotRows(table) => Ok(Tables::HotRows(table.typed()?).into()),
            LoadWorkload::IndexScan(tables) => Ok(Tables::IndexScan(tables.typed()?).into()),
            LoadWorkload::Script(setup) => setup.typed(),
        }
    }
}

/// What decides a loaded file of this workload beside scale, seed and page size.
pub fn load_recipe(workload_json: &str) -> PyResult<LoadRecipe> {
    let recipe = parse::<LoadWorkload>(workload_json)?.typed()?.recipe().map_err(to_python)?;
    Ok(LoadRecipe { schema_sql: recipe.schema_sql, loader_version: recipe.loader_version })
}

/// When transactions are begun.
#[derive(Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Pacing {
    // With braces, so that fields which belong to the other mode are refused here too.
    Closed {},
    Open { rate_per_s: f64, arrivals: String, patience_s: f64 },
}

impl Pacing {
    pub(crate) fn typed(&self) -> PyResult<Pace> {
        let Pacing::Open { rate_per_s, arrivals, patience_s } = self else { return Ok(Pace::Closed) };
        let positive = |name, value: f64| {
            let out_of_range = || unusable(format!("{name} = {value} is not a positive number"), "load");
            (value.is_finite() && value > 0.0).then_some(value).ok_or_else(out_of_range)
        };
        Ok(Pace::Open {
            rate_per_s: positive("rate_per_s", *rate_per_s)?,
            spacing: choice("arrivals", arrivals, Spacing::from_name(arrivals))?,
            patience: Duration::try_from_secs_f64(positive("patience_s", *patience_s)?)
                .map_err(|error| unusable(format!("patience_s = {patience_s}: {error}"), "load"))?,
        })
    }
}

/// A further window after the measured one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Phase {
    name: String,
    source: String,
    text: String,
    variables: BTreeMap<String, Variable>,
    transactions: u64,
    max_seconds: f64,
}

impl Phase {
    /// Its random variables have the run's seed, so that the points of a block execute the same.
    pub(crate) fn typed(&self, seed: u64) -> PhaseJob {
        let script =
            Script { source: self.source.clone(), text: self.text.clone(), variables: self.variables.clone(), seed };
        PhaseJob {
            name: Arc::from(self.name.as_str()),
            script: script.typed(),
            limit: Limit { transactions: self.transactions, seconds: self.max_seconds },
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Knobs {
    page_size_bytes: u64,
    pool_size_bytes: u64,
    io_mode: String,
    pcache: String,
    synchronous: String,
    wal_autocheckpoint_bytes: u64,
    locking_mode: String,
}

impl Knobs {
    fn typed(&self) -> PyResult<SqliteKnobs> {
        let page_size = page_size(self.page_size_bytes)?;
        Ok(SqliteKnobs {
            page_size,
            pool_frames: page_size.frames_in(self.pool_size_bytes),
            io_mode: choice("io_mode", &self.io_mode, IoChoice::from_name(&self.io_mode))?,
            pcache: choice("pcache", &self.pcache, Pcache::from_name(&self.pcache))?,
            synchronous: choice("synchronous", &self.synchronous, Synchronous::from_name(&self.synchronous))?,
            wal_autocheckpoint_bytes: self.wal_autocheckpoint_bytes,
            locking_mode: choice("locking_mode", &self.locking_mode, LockingMode::from_name(&self.locking_mode))?,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WarmUp {
    #[serde(default)]
    pub(crate) min_transactions: u64,
    pub(crate) max_transactions: u64,
    pub(crate) max_seconds: f64,
}

impl WarmUp {
    /// In the core's types.
    pub(crate) fn in_core(&self) -> bufferlab_load::job::WarmUp {
        let limit = Limit { transactions: self.max_transactions, seconds: self.max_seconds };
        bufferlab_load::job::WarmUp { at_least: self.min_transactions, limit }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measure {
    pub(crate) transactions: u64,
    pub(crate) max_seconds: f64,
}

/// A run on SQLite.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunJob {
    database: PathBuf,
    knobs: Knobs,
    workload: Workload,
    #[serde(rename = "load")]
    pacing: Option<Pacing>,
    #[serde(default)]
    phases: Vec<Phase>,
    warm_up: WarmUp,
    measure: Measure,
    sample_interval_ms: u64,
    #[serde(default)]
    probes: Asked,
}

impl RunJob {
    /// Reads a job; unknown fields are errors, so that a misspelt setting cannot pass unnoticed.
    pub fn parse(json: &str) -> PyResult<Self> {
        parse(json)
    }

    /// The job in the core's types.
    pub fn typed(&self) -> PyResult<Run> {
        Ok(Run {
            database: self.database.clone(),
            knobs: self.knobs.typed()?,
            workload: self.workload.typed()?,
            pace: self.pacing.as_ref().map_or(Ok(Pace::Closed), Pacing::typed)?,
            phases: self.phases.iter().map(|phase| phase.typed(self.workload.seed())).collect(),
            warm_up: self.warm_up.in_core(),
            measure: Limit { transactions: self.measure.transactions, seconds: self.measure.max_seconds },
            sample_interval: Duration::from_millis(self.sample_interval_ms.max(10)),
            probes: self.probes.clone(),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadKnobs {
    page_size_bytes: u64,
}

/// A bulk load into SQLite.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadJob {
    database: PathBuf,
    knobs: LoadKnobs,
    workload: LoadWorkload,
    threads: usize,
}

impl LoadJob {
    /// Reads a job; unknown fields are errors.
    pub fn parse(json: &str) -> PyResult<Self> {
        parse(json)
    }

    /// The job in the core's types.
    pub fn typed(&self) -> PyResult<Load> {
        Ok(Load {
            database: self.database.clone(),
            page_size: page_size(self.knobs.page_size_bytes)?,
            data: self.workload.typed()?,
            generators: self.threads,
        })
    }
}

//! Larger pools by the ghost list, beside the same models at those sizes, on the page accesses of TPC-C: a pool tells the
//! reads and evictions that its server would have recorded, and nothing else.

mod emitting;

use bufferlab_generate::engine::Engine;
use bufferlab_generate::innodb::Innodb;
use bufferlab_generate::loaded::Loaded;
use bufferlab_generate::postgres::Postgres;
use bufferlab_model::trace::Kind;
use bufferlab_sim::{Innodb57, Innodb1011, Model, ghost_depths};
use bufferlab_workload::tpcc::TpccConfig;

use emitting::{Holds, Told, played, settings_of};

/// Pages that the pool brings in, as a share of the frames more, before reads count: the list is then long enough.
const TRANSACTIONS: u64 = 16_000;

/// Returns, for pools of these shares of the first one's frames, the reads by the ghost list and by the model, of the
/// part in which the list was as long as the largest needs.
fn found<M: Model + Holds + Send + 'static>(engine: impl Engine, loaded: Loaded, frames: u32) -> Vec<(f64, f64)> {
    let larger = [1.25, 1.5, 2.0].map(|times| (f64::from(frames) * times) as u32);
    let Told { columns, row_us, larger_misses } =
        played::<M>(engine, loaded, frames, &larger, &settings_of(M::NAME), TRANSACTIONS);
    let depths = ghost_depths(&columns.columns(), 0).expect("few pages");
    larger
        .iter()
        .zip(larger_misses)
        .map(|(&size, misses)| {
            let more = size - frames;
            let first = depths.len.iter().position(|&len| len >= more).expect("the list is long enough");
            let spared = |depth: u32| depth > 0 && depth <= more;
            let rows = (first..columns.kind.len()).filter(|&row| columns.kind[row] == Kind::Read as u8);
            let estimate = rows.filter(|&row| !spared(depths.depth[row])).count() as f64;
            let truth = misses.iter().filter(|&&at_us| at_us >= row_us[first]).count() as f64;
            (estimate, truth)
        })
        .collect()
}

fn is_near(name: &str, found: &[(f64, f64)], limit: f64) {
    for (estimate, truth) in found {
        let error = estimate / truth - 1.0;
        println!("{name}: {estimate} by the ghost list, {truth} by the model: {:+.1} %", 100.0 * error);
        assert!(error.abs() < limit, "{name}: {found:?}");
    }
}

fn tpcc() -> TpccConfig {
    TpccConfig::new(1, 20_260_101, 5).expect("a scale")
}

#[test]
fn innodb_of_mysql_5_7_with_more_memory() {
    let loaded = Loaded::new(&tpcc(), &Innodb::records());
    let engine = Innodb::new(16_384, &loaded, TRANSACTIONS);
    is_near("innodb57", &found::<Innodb57>(engine, loaded, 1100), 0.1);
}

#[test]
fn innodb_of_mariadb_with_more_memory() {
    let loaded = Loaded::new(&tpcc(), &Innodb::records());
    let engine = Innodb::new(16_384, &loaded, TRANSACTIONS);
    is_near("innodb1011", &found::<Innodb1011>(engine, loaded, 1100), 0.1);
}

#[test]
fn postgres_with_more_memory() {
    let loaded = Loaded::new(&tpcc(), &Postgres::records());
    let engine = Postgres::new(&loaded, TRANSACTIONS);
    is_near("postgres", &found::<bufferlab_sim::Postgres>(engine, loaded, 2800), 0.1);
}

//! Compares the ghost list's estimates for larger pools with the same models at those sizes. The ghost list is the list
//! of evicted pages. A pool reports only the reads and evictions that its server would have recorded. With
//! `--nocapture` the errors are printed.

mod emitting;

use bufferlab_generate::innodb::Innodb;
use bufferlab_generate::loaded::Loaded;
use bufferlab_generate::postgres::Postgres;
use bufferlab_model::trace::Kind;
use bufferlab_sim::{Innodb57, Innodb1011, ghost_depths};
use bufferlab_workload::tpcc::TpccConfig;

use emitting::{Told, of_power_law, of_tpcc};

const TRANSACTIONS: u64 = 8_000;

/// Returns a pool's frames and those of larger ones.
fn sizes(frames: u32) -> [u32; 4] {
    [1.0, 1.25, 1.5, 2.0].map(|times| (f64::from(frames) * times) as u32)
}

/// Compares the reads that the ghost list predicts for each larger pool with that pool's simulated reads, from the time
/// at which the list is long enough.
fn is_near(name: &str, sizes: [u32; 4], Told { columns, row_us, larger_misses }: &Told, limit: f64) {
    let depths = ghost_depths(&columns.columns(), 0).expect("few pages");
    for (&size, misses) in sizes[1..].iter().zip(larger_misses) {
        let more = size - sizes[0];
        let first = depths.len.iter().position(|&len| len >= more).expect("the list is long enough");
        let spared = |depth: u32| depth > 0 && depth <= more;
        let rows = (first..columns.kind.len()).filter(|&row| columns.kind[row] == Kind::Read as u8);
        let estimate = rows.filter(|&row| !spared(depths.depth[row])).count() as f64;
        let truth = misses.iter().filter(|&&at_us| at_us >= row_us[first]).count() as f64;
        let error = estimate / truth - 1.0;
        println!(
            "{name}, {size} of {}: {estimate} by the list, {truth} by the model: {:+.1} %",
            sizes[0],
            100.0 * error
        );
        assert!(error.abs() < limit, "{name}: {error}");
    }
}

fn tpcc() -> TpccConfig {
    TpccConfig::new(1, 20_260_101, 5).expect("a scale")
}

#[test]
fn innodb_of_mysql_5_7_with_more_memory() {
    let loaded = Loaded::new(&tpcc(), &Innodb::records());
    let engine = Box::new(Innodb::new(16_384, &loaded, TRANSACTIONS));
    is_near("innodb57", sizes(1100), &of_tpcc::<Innodb57>(engine, loaded, &sizes(1100), TRANSACTIONS), 0.1);
}

#[test]
fn innodb_of_mariadb_with_more_memory() {
    let loaded = Loaded::new(&tpcc(), &Innodb::records());
    let engine = Box::new(Innodb::new(16_384, &loaded, TRANSACTIONS));
    is_near("innodb1011", sizes(1100), &of_tpcc::<Innodb1011>(engine, loaded, &sizes(1100), TRANSACTIONS), 0.1);
}

#[test]
fn postgres_with_more_memory() {
    let loaded = Loaded::new(&tpcc(), &Postgres::records());
    let engine = Box::new(Postgres::new(&loaded, TRANSACTIONS));
    let told = of_tpcc::<bufferlab_sim::Postgres>(engine, loaded, &sizes(2800), TRANSACTIONS);
    is_near("postgres", sizes(2800), &told, 0.1);
}

#[test]
fn pages_by_a_power_law_with_more_memory() {
    let (pages, gets, all) = (8000, 200_000, sizes(1000));
    for power in [0.6, 1.2] {
        let name = |model: &str| format!("{model}, power {power}");
        is_near(&name("innodb57"), all, &of_power_law::<Innodb57>(pages, power, gets, &all), 0.03);
        is_near(&name("innodb1011"), all, &of_power_law::<Innodb1011>(pages, power, gets, &all), 0.03);
        is_near(&name("postgres"), all, &of_power_law::<bufferlab_sim::Postgres>(pages, power, gets, &all), 0.03);
    }
}

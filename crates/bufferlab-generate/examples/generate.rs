//! Prints what pools of some sizes would read, and the census of tables and indexes:
//! `generate ENGINE WAREHOUSES PAGE_BYTES SEED WARM_UP WINDOW MODEL SETTINGS FRAMES...`

use std::time::Instant;

use bufferlab_generate::innodb::Innodb;
use bufferlab_generate::loaded::Loaded;
use bufferlab_generate::postgres::Postgres;
use bufferlab_generate::run::{Plan, WarmUp, run};
use bufferlab_generate::sqlite::Sqlite;
use bufferlab_sim::MODELS;
use bufferlab_workload::tpcc::TpccConfig;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let told: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| told[index].parse::<u64>();
    let (warehouses, page_bytes, seed) = (number(1)? as u32, number(2)? as u32, number(3)?);
    let (warm_up, window, model) = (number(4)?, number(5)?, &told[6]);
    let frames: Vec<u32> = told[8..].iter().map(|frames| frames.parse()).collect::<Result<_, _>>()?;
    let config = TpccConfig::new(warehouses, 20_260_101, seed)?;
    let begun = Instant::now();
    let connections = if told[0] == "sqlite" { 1 } else { 8 };
    let plan =
        Plan { config, connections, prefill: true, warm_up: WarmUp::Transactions(warm_up), window, census: true };
    let entry = MODELS.iter().find(|entry| entry.name == model).ok_or("no such model")?;
    let pools = |pages: u32| {
        let made = frames.iter().map(|&frames| (entry.make)(&told[7], frames, pages));
        made.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())
    };
    let transactions = warm_up + window;
    let done = match told[0].as_str() {
        "sqlite" => {
            let loaded = Loaded::new(&config, &Sqlite::records());
            run(Sqlite::new(page_bytes, &loaded, transactions), loaded, plan, Box::new(pools))?
        }
        "postgres" => {
            let loaded = Loaded::new(&config, &Postgres::records());
            run(Postgres::new(&loaded, transactions), loaded, plan, Box::new(pools))?
        }
        _ => {
            let loaded = Loaded::new(&config, &Innodb::records());
            run(Innodb::new(page_bytes, &loaded, transactions), loaded, plan, Box::new(pools))?
        }
    };
    for (counted, object) in done.census.iter().zip(&done.objects) {
        let [few, some, many] = counted.distinct.map(Option::unwrap_or_default);
        let gets = counted.gets_per_transaction;
        println!(
            "{:32} gets/tx {gets:8.3} /50 {few:8.1} /500 {some:8.1} /2000 {many:8.1} of {}",
            counted.name, object.pages
        );
    }
    for (pool, frames) in done.pools.iter().zip(&frames) {
        let reads = pool.counts.misses as f64 / pool.new_orders as f64;
        println!("{frames} frames: {reads:.4} per New-Order, {} misses, {pool:?}", pool.counts.misses);
    }
    println!("all after {:?}", begun.elapsed());
    Ok(())
}

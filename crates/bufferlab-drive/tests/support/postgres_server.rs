//! The PostgreSQL server for tests, whose socket's file BUFFERLAB_TEST_POSTGRES_SOCKET names, as /run/pg/.s.PGSQL.5432.
//! Tests create and drop databases there.

use std::sync::atomic::AtomicBool;

use bufferlab_drive::data::Data;
use bufferlab_drive::loaded::Loaded;
use bufferlab_drive::postgres::control::Control;
use bufferlab_drive::postgres::loader::load;
use bufferlab_drive::server::job::Load;
use bufferlab_drive::server::security::{Security, SslMode};
use bufferlab_drive::server::target::{Place, Target};

/// Returns the server, with the name of a database that does not exist. Without a server for tests, prints the reason
/// and returns none.
pub fn target(database: &str) -> Option<Target> {
    let variable = |name: &str| std::env::var(format!("BUFFERLAB_TEST_POSTGRES_{name}")).ok();
    let Some(socket) = variable("SOCKET") else {
        println!("skipped: BUFFERLAB_TEST_POSTGRES_SOCKET names no server (also -USER, postgres, and -PASSWORD, none)");
        return None;
    };
    // If it is set, connect over TLS instead: to a port of this host, with the root certificate that signed the
    // server's.
    let (place, security) = match variable("TLS_PORT") {
        None => (Place::Socket(socket), None),
        Some(port) => {
            let root_cert = variable("ROOT_CERT").map(Into::into);
            let security = Security { mode: SslMode::VerifyFull, root_cert, ..Security::default() };
            (Place::Tcp { host: "localhost".to_owned(), port: port.parse().expect("a port") }, Some(security))
        }
    };
    let target = Target {
        place,
        user: variable("USER").unwrap_or_else(|| "postgres".to_owned()),
        password: variable("PASSWORD").unwrap_or_default(),
        database: format!("bufferlab_test_{database}"),
        security,
    };
    drop_database(&target);
    Some(target)
}

/// Drops a test's database, and ends connections to it.
pub fn drop_database(target: &Target) {
    let mut control = Control::open_to_ask(target, Some("postgres")).expect("the server is there");
    control.be_patient(target);
    let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", target.database);
    control.execute("dropping a test's database", &sql).expect("it may be dropped");
}

/// Creates an empty database.
#[allow(dead_code)]
pub fn create_database(target: &Target) {
    let mut control = Control::open_to_ask(target, Some("postgres")).expect("the server is there");
    control.be_patient(target);
    let sql = format!("CREATE DATABASE {}", target.database);
    control.execute("making a test's database", &sql).expect("it may be made");
}

#[allow(dead_code)]
pub fn loaded(target: &Target, tables: impl Into<Data>) -> Loaded {
    let job = Load { target: target.clone(), data: tables.into(), threads: 2, storage_engine: None, form: None };
    load(&job, &AtomicBool::new(false), &mut |_| {}).expect("it is loaded")
}

/// Returns every table's checksum, which does not depend on the order of its rows.
#[allow(dead_code)]
pub fn checksums(target: &Target, tables: &[&str]) -> Vec<(String, String)> {
    let of = |table: &str| {
        one(target, &format!("SELECT coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM {table} AS t"))
    };
    tables.iter().map(|&table| (table.to_owned(), of(table))).collect()
}

/// Returns the first column of the query's first row.
#[allow(dead_code)]
pub fn one(target: &Target, sql: &str) -> String {
    let mut control = Control::open(target).expect("the database is there");
    control.one("asking", sql).unwrap_or_else(|failure| panic!("{sql}: {failure}")).expect("there is a value")
}

/// Waits until no client is connected to the database, because a connection flushes its last counters when it ends.
#[allow(dead_code)]
pub fn wait_until_left(target: &Target) {
    let mut control = Control::open_to_ask(target, Some("postgres")).expect("the server is there");
    control.be_patient(target);
    let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{}'", target.database);
    while control.number("waiting", &sql).expect("it answers") > 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

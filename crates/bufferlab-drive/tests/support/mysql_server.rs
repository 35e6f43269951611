//! The MySQL or MariaDB server for tests, whose socket BUFFERLAB_TEST_MYSQL_SOCKET names. Tests create and drop
//! databases there.

use std::sync::atomic::AtomicBool;

use bufferlab_drive::data::Data;
use bufferlab_drive::loaded::Loaded;
use bufferlab_drive::mysql::connection::{connect, connect_to_server};
use bufferlab_drive::mysql::loader::load;
use bufferlab_drive::server::encode::Form;
use bufferlab_drive::server::job::Load;
use bufferlab_drive::server::security::{Security, SslMode};
use bufferlab_drive::server::target::{Place, Target};

/// Returns the server, with the name of a database that does not exist. Without a server for tests, prints the reason
/// and returns none.
pub fn target(database: &str) -> Option<Target> {
    let variable = |name: &str| std::env::var(format!("BUFFERLAB_TEST_MYSQL_{name}")).ok();
    let Some(socket) = variable("SOCKET") else {
        println!("skipped: BUFFERLAB_TEST_MYSQL_SOCKET names no server (also -USER, root, and -PASSWORD, none)");
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
        user: variable("USER").unwrap_or_else(|| "root".to_owned()),
        password: variable("PASSWORD").unwrap_or_default(),
        database: format!("bufferlab_test_{database}"),
        security,
    };
    let mut control = connect_to_server(&target).expect("the server is there");
    control.query_drop(format!("DROP DATABASE IF EXISTS {}", target.database)).expect("it may be dropped");
    Some(target)
}

/// Drops a test's database.
pub fn drop_database(target: &Target) {
    let mut control = connect_to_server(target).expect("the server is there");
    control.query_drop(format!("DROP DATABASE {}", target.database)).expect("it may be dropped");
}

pub fn loaded(target: &Target, tables: impl Into<Data>, form: Option<Form>) -> Loaded {
    let job = Load { target: target.clone(), data: tables.into(), threads: 2, storage_engine: None, form };
    load(&job, &AtomicBool::new(false), &mut |_| {}).expect("it is loaded")
}

/// Returns every table's checksum, which does not depend on the order of its rows. (CHECKSUM TABLE of MariaDB 10.2
/// misses updates of whole tables.)
pub fn checksums(target: &Target, tables: &[&str]) -> Vec<(String, u64)> {
    let mut conn = connect(target).expect("the database is there");
    let mut of = |table: &str| {
        let columns = conn
            .rows(format!(
                "SELECT CONCAT('IFNULL(', column_name, ', ''~'')') FROM information_schema.columns \
                 WHERE table_schema = DATABASE() AND table_name = '{table}' ORDER BY ordinal_position"
            ))
            .expect("the table is known");
        let columns: Vec<String> = columns.into_iter().flatten().flatten().collect();
        let sql = format!("SELECT CAST(SUM(CRC32(CONCAT_WS('|', {}))) AS UNSIGNED) FROM {table}", columns.join(", "));
        conn.number(sql).expect("it is summed").expect("there is a row")
    };
    tables.iter().map(|&table| (table.to_owned(), of(table))).collect()
}

/// Returns the first column of the query's first row.
pub fn one<T: std::str::FromStr<Err: std::fmt::Debug>>(target: &Target, sql: &str) -> T {
    let mut conn = connect(target).expect("the database is there");
    let text = conn.first(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).expect("there is a row");
    text.parse().expect("of this type")
}

//! Writing one table: a thread that generates and encodes, a connection that sends, then indexes and statistics.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::Receiver;
use mysql::prelude::Queryable;
use mysql::{Conn, LocalInfileHandler};

use super::Shared;
use crate::failure::{Failure, FailureKind};
use crate::mysql::connection::connect;
use crate::mysql::error::failure;
use crate::server::bulk::Chunk;
use crate::server::encode::{Encoder, Form};

/// Rows of one transaction: few enough for a server to roll back, and enough to make commits rare.
const TRANSACTION_ROWS: u64 = 200_000;

/// One connection that writes tables.
pub(super) struct TableWriter<'a> {
    shared: &'a Shared<'a>,
    conn: Conn,
    place: String,
}

impl<'a> TableWriter<'a> {
    pub(super) fn connect(shared: &'a Shared<'a>) -> Result<Self, Failure> {
        let place = shared.load.target.place();
        let mut conn = connect(&shared.load.target)?;
        // The rows are known to be right; checking them would read pages of secondary indexes.
        conn.query_drop("SET SESSION unique_checks = 0, foreign_key_checks = 0")
            .map_err(|error| failure("preparing to load", &place, &error))?;
        if let Ok(mut connections) = shared.connections.lock() {
            connections.push(conn.connection_id());
        }
        Ok(TableWriter { shared, conn, place })
    }

    /// Loads one table; returns its rows.
    pub(super) fn write(&mut self, table: usize) -> Result<u64, Failure> {
        let shared = self.shared;
        let schema = &shared.tables[table];
        let encoder = Encoder::new(shared.form, &schema.columns);
        let rows = match shared.form {
            Form::Lines => shared
                .bulk
                .write_table(table, schema.name, encoder, "", |chunks| self.send_lines(schema.name, chunks))?,
            Form::Tuples => {
                let head = format!("INSERT INTO {} VALUES", schema.name);
                shared.bulk.write_table(table, schema.name, encoder, &head, |chunks| self.send_tuples(chunks))?
            }
        };
        for sql in &schema.indexes {
            self.run(sql, "building indexes")?;
        }
        // The statistics that the server takes during a load see a table that grows; the planner must know the whole.
        self.run(&format!("ANALYZE TABLE {}", schema.name), "taking statistics")?;
        Ok(rows)
    }

    fn run(&mut self, sql: &str, action: &str) -> Result<(), Failure> {
        self.conn.query_drop(sql).map_err(|error| failure(action, &self.place, &error))
    }

    /// Streams chunks through LOAD DATA LOCAL, a transaction at a time; returns the rows that the server took.
    fn send_lines(&mut self, table: &str, chunks: &Receiver<Chunk>) -> Result<u64, Failure> {
        let sql = format!(
            "LOAD DATA LOCAL INFILE 'rows' INTO TABLE {table} CHARACTER SET latin1 \
             FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n'"
        );
        let at = |error| failure(&format!("loading {table}"), &self.place, &error);
        let mut taken = 0;
        // Opens a statement only when there are rows for it.
        while let Ok(first) = chunks.recv() {
            let streamed = Arc::new(AtomicU64::new(0));
            self.conn.set_local_infile_handler(Some(stream(first, chunks.clone(), Arc::clone(&streamed))));
            let loaded = self.conn.query_iter(&sql).map(|result| (result.affected_rows(), result.warnings()));
            // The handler holds an end of the channel: left in a failed connection, it would make the generator wait
            // for ever.
            self.conn.set_local_infile_handler(None);
            let (rows, warnings) = loaded.map_err(at)?;
            // LOCAL turns errors of rows into warnings, and leaves duplicates out.
            if warnings > 0 {
                return Err(self.warned(table));
            }
            taken += rows;
            self.shared.bulk.took(rows);
        }
        Ok(taken)
    }

    /// Sends chunks as INSERTs, a transaction at a time; returns the rows that the server took.
    fn send_tuples(&mut self, chunks: &Receiver<Chunk>) -> Result<u64, Failure> {
        let at = |error| failure("inserting rows", &self.place, &error);
        self.conn.query_drop("SET autocommit = 0").map_err(at)?;
        let (mut taken, mut uncommitted) = (0, 0);
        for chunk in chunks {
            let Ok(sql) = std::str::from_utf8(&chunk.text) else {
                let what = "a row holds text that is not UTF-8";
                return Err(Failure::new(FailureKind::Internal, what, &self.place, "please report this"));
            };
            let rows = self.conn.query_iter(sql).map(|result| result.affected_rows()).map_err(at)?;
            taken += rows;
            uncommitted += rows;
            self.shared.bulk.took(rows);
            if uncommitted >= TRANSACTION_ROWS {
                self.conn.query_drop("COMMIT").map_err(at)?;
                uncommitted = 0;
            }
        }
        self.conn.query_drop("COMMIT").map_err(at)?;
        self.conn.query_drop("SET autocommit = 1").map_err(at)?;
        Ok(taken)
    }

    fn warned(&mut self, table: &str) -> Failure {
        let first: Result<Option<(String, u32, String)>, _> = self.conn.query_first("SHOW WARNINGS LIMIT 1");
        let said =
            first.ok().flatten().map_or_else(|| "no words".to_owned(), |(_, code, text)| format!("{text} ({code})"));
        let what = format!("the server did not take rows of {table} as they are: {said}");
        Failure::new(FailureKind::Internal, what, &self.place, "please report this with the server's version")
    }
}

/// Returns the library's handler of the "file": it gives chunks until a transaction is full or none are left.
fn stream(first: Chunk, chunks: Receiver<Chunk>, streamed: Arc<AtomicU64>) -> LocalInfileHandler {
    let mut next = Some(first);
    LocalInfileHandler::new(move |_, writer| {
        while let Some(chunk) = next.take().or_else(|| chunks.recv().ok()) {
            writer.write_all(&chunk.text)?;
            if streamed.fetch_add(chunk.rows, Ordering::Relaxed) + chunk.rows >= TRANSACTION_ROWS {
                break;
            }
        }
        Ok(())
    })
}

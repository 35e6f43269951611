//! Writes one table. A thread generates and encodes rows, and a connection sends them. Then the connection builds the
//! table's indexes and computes its statistics.

use crossbeam_channel::Receiver;

use super::Shared;
use crate::failure::{Failure, FailureKind};
use crate::lock;
use crate::mysql::connection::{Conn, connect_to_load, no_socket};
use crate::mysql::error::failure;
use crate::mysql::line::Line;
use crate::server::bulk::Chunk;
use crate::server::encode::{Encoder, Form};

/// Rows of one transaction: few enough for a server to roll them back, and enough to make commits rare.
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
        let mut conn = connect_to_load(&shared.load.target)?;
        // Do not check the rows: the generator makes them right, and checks would read pages of secondary indexes.
        conn.query_drop("SET SESSION unique_checks = 0, foreign_key_checks = 0")
            .map_err(|error| failure("preparing to load", &place, &error))?;
        let line = Line::of(&conn).map_err(|error| no_socket(&error, &place))?;
        lock(&shared.connections).push((conn.connection_id(), line));
        Ok(TableWriter { shared, conn, place })
    }

    /// Loads one table, builds its indexes and computes its statistics; returns the number of its rows.
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
        // The statistics that the server computed during the load are those of a smaller table; the planner needs those
        // of the whole table.
        self.run(&format!("ANALYZE TABLE {}", schema.name), "taking statistics")?;
        Ok(rows)
    }

    fn run(&mut self, sql: &str, action: &str) -> Result<(), Failure> {
        self.conn.query_drop(sql).map(drop).map_err(|error| failure(action, &self.place, &error))
    }

    /// Streams chunks through LOAD DATA LOCAL, one transaction after the other. Returns the number of rows that the
    /// server stored.
    fn send_lines(&mut self, table: &str, chunks: &Receiver<Chunk>) -> Result<u64, Failure> {
        let sql = format!(
            "LOAD DATA LOCAL INFILE 'rows' INTO TABLE {table} CHARACTER SET latin1 \
             FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n'"
        );
        let at = |error| failure(&format!("loading {table}"), &self.place, &error);
        let mut taken = 0;
        // Begin a statement only when there are rows for it.
        while let Ok(first) = chunks.recv() {
            let (mut next, mut streamed) = (Some(first), 0);
            let mut text = || {
                // End the statement when the transaction is full, or no chunks are left.
                let chunk =
                    if streamed < TRANSACTION_ROWS { next.take().or_else(|| chunks.recv().ok()) } else { None }?;
                streamed += chunk.rows;
                Some(chunk.text)
            };
            let loaded = self.conn.wire.load_local(&sql, &mut text).map_err(at)?;
            let (rows, warnings) = (loaded.affected, loaded.warnings);
            // With LOCAL the server turns errors in rows into warnings, and skips duplicate rows.
            if warnings > 0 {
                return Err(self.warned(table));
            }
            taken += rows;
            self.shared.bulk.took(rows);
        }
        Ok(taken)
    }

    /// Sends chunks as INSERTs, one transaction after the other. Returns the number of rows that the server stored.
    fn send_tuples(&mut self, chunks: &Receiver<Chunk>) -> Result<u64, Failure> {
        let at = |error| failure("inserting rows", &self.place, &error);
        self.conn.query_drop("SET autocommit = 0").map_err(at)?;
        let (mut taken, mut uncommitted) = (0, 0);
        for chunk in chunks {
            let Ok(sql) = std::str::from_utf8(&chunk.text) else {
                let what = "a row holds text that is not UTF-8";
                return Err(Failure::new(FailureKind::Internal, what, &self.place, "please report this"));
            };
            let rows = self.conn.query_drop(sql).map_err(at)?.affected;
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
        let first = self.conn.rows("SHOW WARNINGS LIMIT 1").ok().and_then(|rows| rows.into_iter().next());
        // A warning has a level, a number and a text.
        let said = match first.as_deref() {
            Some([_, Some(code), Some(text)]) => format!("{text} ({code})"),
            _ => "no words".to_owned(),
        };
        let what = format!("the server did not take rows of {table} as they are: {said}");
        Failure::new(FailureKind::Internal, what, &self.place, "please report this with the server's version")
    }
}

//! Page accesses without a server: bufferlab's own driver of TPC-C or hot_rows talks to a client without rows, which
//! determines the pages that each statement touches.
//!
//! [`Loaded`](loaded::Loaded) describes the loaded rows. An [`Engine`](engine::Engine) lays them out in pages and has
//! the server's rules of access, as operations on tables and indexes. [`RowlessClient`](rowless_client::RowlessClient)
//! is the client, with a plan of each statement. [`run`](run::run) executes transactions, and passes each page access
//! to several pools at once without storing it.

pub mod engine;
pub mod hot_rows;
pub mod innodb;
pub mod job;
pub mod loaded;
pub mod log_writes;
pub mod page_shares;
pub mod pools;
pub mod postgres;
pub mod rowless_client;
pub mod run;
pub mod scale;
pub mod schema;
mod segment;
pub mod simulate;
pub mod sqlite;
pub mod tree;

//! The shape of a database that no process has open: for each b-tree its pages by level, its rows, and the used bytes
//! of its pages.
//!
//! The shape comes from SQLite's virtual table dbstat (<https://sqlite.org/dbstat.html>), which reads every page of the
//! file once.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde::Serialize;

use crate::failure::{DEVICE_ERROR_HINT, Failure, FailureKind, RELOAD_HINT};

/// The content of a b-tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeKind {
    /// A table's rows, also if the table is stored in the order of its key (WITHOUT ROWID).
    #[default]
    Table,
    /// The entries of an index.
    Index,
}

/// The figures of one b-tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tree {
    /// Name of the table or index.
    pub name: String,
    /// Name of the table to which the tree belongs.
    pub table: String,
    /// The tree's content.
    pub kind: TreeKind,
    /// Number of the table's rows, or of the index's entries.
    pub rows: u64,
    /// Number of pages that have no children.
    pub leaf_pages: u64,
    /// Number of pages that have children.
    pub interior_pages: u64,
    /// Number of pages with the rest of rows that are too long for one page.
    pub overflow_pages: u64,
    /// Number of levels of the tree, its root and its leaves included.
    pub height: usize,
    /// Number of pages on each level, the root's level first.
    pub level_pages: Vec<u64>,
    /// Bytes of rows and keys, on pages of all kinds.
    pub payload_bytes: u64,
    /// Unused bytes on the tree's pages.
    pub unused_bytes: u64,
}

/// All b-trees of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Bytes of a page of the file.
    pub page_size_bytes: u64,
    /// Number of pages of the file, free ones included.
    pub pages: u64,
    /// Number of the file's pages that are on its free list.
    pub free_pages: u64,
    /// The trees of tables and indexes, in the order of their creation. The catalogue's tree is not among them.
    pub trees: Vec<Tree>,
}

/// Reads the shape of a database that no process has open.
///
/// # Errors
/// When the file is missing, is not a database, or cannot be read.
pub fn shape(database: &Path) -> Result<Shape, Failure> {
    opened(database, read)
}

/// The pages of one b-tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TreePages {
    /// Name of the table or index.
    pub name: String,
    /// Numbers of all pages of the tree, overflow pages included, in the order of the tree.
    pub pages: Vec<u32>,
    /// Numbers of the tree's pages that have children.
    pub interior: Vec<u32>,
}

/// Returns the pages of each b-tree of a database that no process has open, also of the catalogue's (sqlite_schema).
///
/// # Errors
/// The errors of [`shape`].
pub fn pages_of_trees(database: &Path) -> Result<Vec<TreePages>, Failure> {
    opened(database, |connection| {
        let mut statement = connection.prepare("SELECT pageno, pagetype = 'internal' FROM dbstat WHERE name = ?")?;
        let names = declared_trees(connection)?.into_iter().map(|tree| tree.name);
        let pages_of = |name: String| {
            let of_row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let told: Vec<(u32, bool)> = statement.query_map([&name], of_row)?.collect::<rusqlite::Result<_>>()?;
            let interior = told.iter().filter(|&&(_, has_children)| has_children).map(|&(page, _)| page).collect();
            Ok(TreePages { name, pages: told.into_iter().map(|(page, _)| page).collect(), interior })
        };
        std::iter::once("sqlite_schema".to_owned()).chain(names).map(pages_of).collect()
    })
}

/// Opens a database that no process has open, and returns the result of `read` on its connection.
fn opened<T>(database: &Path, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Failure> {
    if !database.is_file() {
        let place = database.display().to_string();
        return Err(Failure::new(FailureKind::Environment, "there is no such database", place, "check the path"));
    }
    let found = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE).and_then(|found| read(&found));
    found.map_err(|error| {
        let (kind, hint) = match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
                (FailureKind::Data, RELOAD_HINT)
            }
            _ => (FailureKind::Io, DEVICE_ERROR_HINT),
        };
        Failure::new(kind, format!("reading the shape: {error}"), database.display().to_string(), hint)
    })
}

fn read(connection: &Connection) -> rusqlite::Result<Shape> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (page_size_bytes, pages, free_pages) = (pragma("page_size")?, pragma("page_count")?, pragma("freelist_count")?);
    let mut trees = declared_trees(connection)?;
    let mut statement =
        connection.prepare("SELECT path, pagetype, ncell, payload, unused FROM dbstat WHERE name = ?")?;
    for tree in &mut trees {
        let mut rows = statement.query([&tree.name])?;
        let mut entries = Entries::default();
        while let Some(row) = rows.next()? {
            let count = |column| row.get::<_, i64>(column).map(|count| count as u64);
            let (cells, payload, unused) = (count(2)?, count(3)?, count(4)?);
            tree.payload_bytes += payload;
            tree.unused_bytes += unused;
            let path = row.get_ref(0)?.as_str()?;
            match row.get_ref(1)?.as_str()? {
                "overflow" => {
                    tree.overflow_pages += 1;
                    continue;
                }
                "leaf" => {
                    tree.leaf_pages += 1;
                    entries.on_leaves += cells;
                }
                _ => {
                    tree.interior_pages += 1;
                    entries.on_interiors += cells;
                }
            }
            tree.count_in_level(level_of(path));
        }
        tree.height = tree.level_pages.len();
        tree.rows = entries.rows(tree.keeps_entries_on_interiors(connection)?);
    }
    Ok(Shape { page_size_bytes: page_size_bytes as u64, pages: pages as u64, free_pages: free_pages as u64, trees })
}

/// Returns the tables and indexes that have a tree.
fn declared_trees(connection: &Connection) -> rusqlite::Result<Vec<Tree>> {
    let mut statement =
        connection.prepare("SELECT name, tbl_name, type FROM sqlite_schema WHERE rootpage > 0 ORDER BY rowid")?;
    let trees = statement.query_map([], |row| {
        let kind = if row.get_ref(2)?.as_str()? == "index" { TreeKind::Index } else { TreeKind::Table };
        Ok(Tree { name: row.get(0)?, table: row.get(1)?, kind, ..Tree::default() })
    })?;
    trees.collect()
}

impl Tree {
    fn count_in_level(&mut self, level: usize) {
        if self.level_pages.len() <= level {
            self.level_pages.resize(level + 1, 0);
        }
        self.level_pages[level] += 1;
    }

    /// Returns true for a tree whose interior pages hold entries, too. Only a table in the order of row ids has all
    /// rows on its leaves (file format, section 1.6).
    fn keeps_entries_on_interiors(&self, connection: &Connection) -> rusqlite::Result<bool> {
        if self.kind == TreeKind::Index {
            return Ok(true);
        }
        let sql = "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?";
        connection.query_row(sql, [&self.name], |row| row.get(0))
    }
}

#[derive(Default)]
struct Entries {
    on_leaves: u64,
    on_interiors: u64,
}

impl Entries {
    fn rows(&self, also_on_interiors: bool) -> u64 {
        if also_on_interiors { self.on_leaves + self.on_interiors } else { self.on_leaves }
    }
}

/// Returns the level of a path of dbstat, zero for the root. The root's path is "/", and each level below adds a part
/// that ends in "/".
fn level_of(path: &str) -> usize {
    path.bytes().filter(|&byte| byte == b'/').count() - 1
}

//! Embeds the SQL of `dialects/`: lists every file in that folder by its path, so that a new file needs no line of
//! code.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("dialects/ can be read").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn main() {
    let variable = |name| PathBuf::from(env::var_os(name).expect("cargo sets it"));
    let root = variable("CARGO_MANIFEST_DIR").join("dialects");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut list = String::from("[\n");
    for path in files(&root) {
        let name = path.strip_prefix(&root).expect("it is below");
        writeln!(list, "({name:?}, include_str!({path:?})),").expect("a string takes it");
    }
    list.push(']');
    fs::write(variable("OUT_DIR").join("dialects.rs"), list).expect("OUT_DIR can be written");
}

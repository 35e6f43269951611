//! Makes the shared library that traced servers load from the sources of bufferlab-inside, with the compiler of this
//! build. The crate embeds it, so that there is one file to install.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "bufferlab_inside.so";

fn main() {
    let source = Path::new(&wanted("CARGO_MANIFEST_DIR")).join("../bufferlab-inside/src");
    println!("cargo::rerun-if-changed={}", source.display());
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let library = PathBuf::from(wanted("OUT_DIR")).join(NAME);
    if wanted("CARGO_CFG_TARGET_ARCH") == "x86_64" && wanted("CARGO_CFG_TARGET_OS") == "linux" {
        compile(&source.join("lib.rs"), &library);
    } else {
        // The library's assembly exists only for x86-64. On other processors an empty file takes its place, and the
        // recorder reports this.
        std::fs::write(&library, []).expect("an empty library can be written");
    }
}

fn compile(source: &Path, library: &Path) {
    let (target, host) = (wanted("TARGET"), wanted("HOST"));
    let mut command = Command::new(wanted("RUSTC"));
    command.args(["--edition", "2024", "--crate-name", "bufferlab_inside", "--crate-type", "cdylib"]);
    command.args(["--cfg", "feature=\"preload\"", "-C", "opt-level=2", "-C", "panic=abort", "-C", "lto=fat"]);
    // Link no other library, so that this library loads with the C library of any server.
    command.args(["-C", "codegen-units=1", "-C", "strip=symbols", "-C", "link-arg=-nostdlib"]);
    if target != host {
        command.args(["--target", &target]);
    }
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        command.arg("-C").arg(format!("linker={linker}"));
    }
    let status = command.arg(source).arg("-o").arg(library).status().expect("the compiler of this build runs");
    assert!(status.success(), "the library for traced servers does not compile: {command:?}");
}

fn wanted(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo tells {name}"))
}

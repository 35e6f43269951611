//! A file of /proc or /sys that is opened once and read many times, by pread from offset 0: opening costs several times
//! as much as reading. If the file cannot be opened or read, its reader gets the reason instead of the text.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// An open kernel file and the buffer of its text.
pub(crate) struct ProcFile {
    path: Box<str>,
    file: Result<File, Arc<str>>,
    buffer: Vec<u8>,
}

impl ProcFile {
    /// Opens the file. Every `read` returns a failure of the opening.
    pub(crate) fn open(path: &str) -> Self {
        let file = File::open(Path::new(path)).map_err(|error| reason("open", path, &error));
        // Most of these texts fit into two pages; the buffer grows as needed and stays.
        Self { path: path.into(), file, buffer: vec![0; 8192] }
    }

    /// Returns the file's text at this moment.
    pub(crate) fn read(&mut self) -> Result<&[u8], Arc<str>> {
        let file = self.file.as_ref().map_err(Arc::clone)?;
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                self.buffer.resize(2 * length, 0);
            }
            match file.read_at(&mut self.buffer[length..], length as u64) {
                Ok(0) => return Ok(&self.buffer[..length]),
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(reason("read", &self.path, &error)),
            }
        }
    }
}

fn reason(verb: &str, path: &str, error: &io::Error) -> Arc<str> {
    format!("cannot {verb} {path}: {error}").into()
}

//! Does a job and prints the answer, both as JSON: `generate < JOB`. Its gate never ends a warm-up, so each warm-up
//! lasts a number of transactions.

use bufferlab_generate::job::Job;
use bufferlab_generate::run::Gate;
use bufferlab_generate::simulate::generate;

/// A gate that never ends a warm-up.
struct Shut;

impl Gate for Shut {
    fn prefill(&mut self, _misses: u64) {}

    fn is_warm(&mut self, _misses: u64) -> bool {
        false
    }

    fn end(&self) -> Option<&'static str> {
        None
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let job: Job = serde_json::from_reader(std::io::stdin())?;
    let done = generate(&job, &|_, _, _| Box::new(Shut), None)?;
    println!("{}", serde_json::to_string_pretty(&done)?);
    Ok(())
}

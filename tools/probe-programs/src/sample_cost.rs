//! Measures the cost of one sample: `cargo run --release -p probe-programs --bin sample_cost -- [PATH] [SAMPLES] [PID]`.
//! It prints processor time per probe and the share of a core at one sample a second. It needs no idle machine, because
//! it measures processor time, not elapsed time.

use bufferlab_probe::{DeviceProbe, DriverThread, Probe, ProcessProbe, SchedProbe, ServerProbe, of_host};
use std::path::PathBuf;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().unwrap_or_else(|| ".".to_owned()));
    let samples = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(2_000_u64).max(1);
    let server = arguments.next().and_then(|pid| pid.parse().ok());
    let mut probes: Vec<Box<dyn Probe>> = vec![Box::new(DeviceProbe::for_path(&path))];
    probes.extend(of_host());
    probes.push(Box::new(ProcessProbe::new().with_driver(DriverThread::current())));
    probes.push(Box::new(SchedProbe::new(server)));
    if let Some(pid) = server {
        probes.push(Box::new(ServerProbe::new(pid)));
    }
    let mut total_us = 0.0;
    for probe in &mut probes {
        let (cost_us, readings) = cost(probe.as_mut(), samples);
        println!("{:8} {cost_us:8.1} us  {readings:4} readings", probe.name());
        total_us += cost_us;
    }
    println!("{:8} {total_us:8.1} us  = {:.4} % of a core at 1 Hz", "total", total_us / 1e4);
}

/// Returns the processor time of one sample in microseconds, and the readings in it.
fn cost(probe: &mut dyn Probe, samples: u64) -> (f64, usize) {
    let mut out = Vec::new();
    probe.sample(&mut out);
    let readings = out.len();
    let thread = DriverThread::current();
    let before = thread.cpu_ns().unwrap_or(0);
    for _ in 0..samples {
        out.clear();
        probe.sample(&mut out);
    }
    let spent = thread.cpu_ns().unwrap_or(0) - before;
    (spent as f64 / 1e3 / samples as f64, readings)
}

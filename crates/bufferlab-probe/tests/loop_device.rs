//! Tests a real stacked device: a loop device over a file must lead to the disk that holds the file. The test needs
//! root, losetup and a free loop device; if one is missing, it says so and passes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bufferlab_probe::{DeviceProbe, Probe, device};

struct Loop(PathBuf);

impl Loop {
    fn over(file: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
        let node = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| Loop(node.trim().into()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

#[test]
fn a_loop_device_names_its_file_and_counts_the_disk_below() {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
    let file = directory.path().join("disk.img");
    fs::write(&file, vec![0u8; 1 << 20]).expect("a file");
    let Some(made) = Loop::over(&file) else {
        eprintln!("not run: no loop device can be made here");
        return;
    };
    let stacked = device::resolve(&made.0);
    let name = stacked.name.as_deref().expect("a loop device has a name");
    assert_eq!(stacked.layers, [format!("{name} ({})", file.display())]);
    let under = device::resolve(directory.path());
    let (Some(disk), true) = (under.name, under.disks.is_empty()) else {
        eprintln!("not checked further: the file itself is on no plain disk");
        return;
    };
    assert_eq!(stacked.disks.iter().map(|disk| disk.name.as_str()).collect::<Vec<_>>(), [disk.as_str()]);
    let mut readings = Vec::new();
    DeviceProbe::for_path(&made.0).sample(&mut readings);
    let below = readings.iter().find(|reading| reading.metric == "disk_reads").expect("the disk is counted");
    assert_eq!((&*below.subject, below.count.is_some()), (disk.as_str(), true));
    assert!(readings.iter().any(|reading| reading.metric == "device_reads" && &*reading.subject == name));
}

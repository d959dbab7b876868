//! Copy on write against a shadow model, over files and in memory.
#![cfg(target_os = "linux")]

use hoistway::{IoPrio, sched};
use hoistway_serve::storage::{FileOptions, Way};
use hoistway_serve::{Client, Device, DeviceOptions, ServeError, Target};
use hoistway_sim::rng::{Rng, stream};
use std::path::{Path, PathBuf};

const SIZE: usize = 40 << 20;
const BLOCK: usize = 512;

/// A folder of the test alone, with a base that is half noise and half hole.
struct Stage {
    folder: PathBuf,
    base: Vec<u8>,
}

impl Stage {
    fn new(name: &str) -> Stage {
        let folder =
            std::env::temp_dir().join(format!("hoistway-cow-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut random = stream(7, "cow");
        let mut base = vec![0; SIZE];
        base[..SIZE / 2].iter_mut().for_each(|b| *b = random.below(256) as u8);
        std::fs::write(folder.join("base"), &base[..SIZE / 2]).unwrap();
        let file = std::fs::File::options().write(true).open(folder.join("base")).unwrap();
        file.set_len(SIZE as u64).unwrap();
        Stage { folder, base }
    }

    fn target(&self, overlay: Option<&str>, way: Way) -> Target {
        let options = FileOptions { way, ..FileOptions::default() };
        Target::Cow {
            base: Box::new(Target::File { path: self.folder.join("base"), options }),
            overlay: overlay.map(|name| self.folder.join(name)),
        }
    }

    fn base_is_untouched(&self) {
        assert!(std::fs::read(self.folder.join("base")).unwrap() == self.base);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn open(target: &Target) -> Result<Device, ServeError> {
    Device::open(target, &DeviceOptions::new(sched::find("mq-deadline").unwrap()))
}

/// Changes device and shadow alike; several operations are under way at once, on blocks apart.
fn fuzz(client: &Client, shadow: &mut [u8], random: &mut Rng, rounds: usize) {
    for round in 0..rounds {
        let mut pending = Vec::new();
        for lane in 0..4u64 {
            let lane_blocks = (SIZE / BLOCK) as u64 / 4;
            let at = random.below(lane_blocks - 200);
            // Often the same few blocks, so that old and new are mixed.
            let at = if random.below(2) == 0 { at % 300 } else { at };
            let from = (lane * lane_blocks + at) as usize * BLOCK;
            let len = (1 + random.below(100)) as usize * BLOCK;
            let range = &mut shadow[from..from + len];
            match random.below(6) {
                0 => {
                    range.fill(0);
                    pending.push((client.start_discard(from as u64, len as u64), None));
                }
                1 | 2 => {
                    let fill = random.below(255) as u8;
                    range.iter_mut().enumerate().for_each(|(n, b)| *b = fill ^ (n >> 9) as u8);
                    let data = hoistway_serve::Buffer::from_slice(range);
                    let durable = random.below(4) == 0;
                    let write = if durable {
                        client.start_durable_write(from as u64, data)
                    } else {
                        client.start_write(from as u64, data)
                    };
                    pending.push((write, None));
                }
                _ => {
                    let buffer = hoistway_serve::Buffer::zeroed(len);
                    pending.push((client.start_read(from as u64, buffer), Some(range.to_vec())));
                }
            }
        }
        for (io, expected) in pending {
            let buffer = io.wait().unwrap();
            assert!(expected.is_none_or(|e| buffer[..] == e[..]), "round {round}");
        }
        if round % 50 == 49 {
            client.flush().unwrap();
        }
    }
    let mut all = vec![1; SIZE];
    client.read(0, &mut all).unwrap();
    assert!(all == shadow, "all of it, old and new");
}

#[test]
fn reads_are_those_of_a_shadow_and_the_base_is_untouched() {
    let stage = Stage::new("shadow");
    let ways = [
        (None, Way::Best),
        (None, Way::Threads),
        (Some("a"), Way::Best),
        (Some("b"), Way::Threads),
    ];
    for (n, (overlay, way)) in ways.into_iter().enumerate() {
        let device = open(&stage.target(overlay, way)).unwrap();
        assert_eq!(device.facts().persistent, overlay.is_some());
        let client = device.client(IoPrio::NONE).unwrap();
        let mut shadow = stage.base.clone();
        fuzz(&client, &mut shadow, &mut stream(n as u64, "cow"), 300);
        drop(client);
        device.close().unwrap();
        stage.base_is_untouched();
        let again = open(&stage.target(overlay, way)).unwrap();
        let mut all = vec![1; SIZE];
        again.client(IoPrio::NONE).unwrap().read(0, &mut all).unwrap();
        match overlay {
            Some(_) => assert!(all == shadow, "it was kept"),
            None => assert!(all == stage.base, "it is gone"),
        }
    }
}

#[test]
fn what_was_kept_goes_on_where_it_stopped() {
    let stage = Stage::new("again");
    let mut shadow = stage.base.clone();
    let mut random = stream(3, "cow");
    for _ in 0..4 {
        let device = open(&stage.target(Some("overlay"), Way::Best)).unwrap();
        fuzz(&device.client(IoPrio::NONE).unwrap(), &mut shadow, &mut random, 60);
        device.close().unwrap();
    }
    stage.base_is_untouched();
}

fn refusal(target: &Target) -> String {
    open(target).unwrap_err().to_string()
}

#[test]
fn overlays_that_do_not_fit_are_refused() {
    let stage = Stage::new("refused");
    let target = stage.target(Some("overlay"), Way::Best);
    let device = open(&target).unwrap();
    assert!(refusal(&target).contains("another server uses this overlay"));
    device.close().unwrap();
    drop(device);

    let path = |name: &str| stage.folder.join(name);
    let write = |path: &Path, at: u64, bytes: &[u8]| {
        let file = std::fs::File::options().write(true).open(path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, at).unwrap();
    };
    std::fs::write(path("other"), vec![1; 10_000]).unwrap();
    assert!(refusal(&stage.target(Some("other"), Way::Best)).contains("is not an overlay"));
    std::fs::copy(path("overlay"), path("damaged")).unwrap();
    write(&path("damaged"), 24, &[1]);
    assert!(refusal(&stage.target(Some("damaged"), Way::Best)).contains("damaged"));
    let short = std::fs::File::options().write(true).open(path("damaged")).unwrap();
    std::fs::copy(path("overlay"), path("damaged")).unwrap();
    short.set_len(SIZE as u64).unwrap();
    assert!(refusal(&stage.target(Some("damaged"), Way::Best)).contains("cut short"));

    write(&path("base"), 0, &[1]);
    let times = std::fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
    let base = std::fs::File::options().write(true).open(path("base")).unwrap();
    base.set_times(times).unwrap();
    assert!(refusal(&target).contains("has been modified"));
    base.set_len(SIZE as u64 / 2).unwrap();
    assert!(refusal(&target).contains("an overlay for 41943040 bytes"));
    let ram =
        Target::Cow { base: Box::new(Target::Ram { size: 1 << 20 }), overlay: Some(path("fresh")) };
    assert!(refusal(&ram).contains("wants a base that is kept"));
}

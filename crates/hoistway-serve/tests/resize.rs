//! Files that grow and shrink while they are served.
#![cfg(target_os = "linux")]

mod client;

use client::Client;
use hoistway::sched;
use hoistway_serve::front::Export;
use hoistway_serve::front::nbd::{Server, ServerOptions};
use hoistway_serve::net::Listen;
use hoistway_serve::storage::{FileOptions, Way};
use hoistway_serve::{Device, DeviceOptions, Target};
use hoistway_sim::rng::stream;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

struct Stage {
    folder: PathBuf,
    file: File,
    device: Device,
    socket: PathBuf,
    _server: Server,
}

impl Stage {
    /// A file of 1 MiB, as a whole, its first 256 KiB, and from 512 KiB on.
    fn new(way: Way) -> Stage {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("hoistway-resize-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("disk");
        std::fs::write(&path, vec![7; MIB as usize]).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        let options = FileOptions { way, ..FileOptions::default() };
        let target = Target::File { path, options };
        let options = DeviceOptions::new(sched::find("bfq").unwrap());
        let device = Device::open(&target, &options).unwrap();
        let socket = folder.join("s");
        let first = Export { size: Some(256 * KIB), ..Export::new("first", device.clone()) };
        let last = Export { offset: 512 * KIB, ..Export::new("last", device.clone()) };
        let exports = vec![Export::new("disk", device.clone()), first, last];
        let listen = [Listen::Unix(socket.clone())];
        let server = Server::start(exports, &listen, &ServerOptions::default()).unwrap();
        Stage { folder, file, device, socket, _server: server }
    }

    fn go(&self, export: &str) -> Client {
        Client::go(&self.socket, export, true).unwrap()
    }

    fn sizes(&self) -> [u64; 3] {
        ["disk", "first", "last"].map(|export| self.go(export).size)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn error_of(c: &mut Client, kind: u16, offset: u64, len: u32) -> u32 {
    let data = vec![9; if kind == 1 { len as usize } else { 0 }];
    c.send(kind, 0, 1, offset, len, &data);
    c.reply(&[]).1
}

#[test]
fn who_comes_sees_the_new_size_and_who_is_there_keeps_the_old_one() {
    for way in [Way::Best, Way::Threads] {
        let stage = Stage::new(way);
        let mut old = stage.go("disk");
        assert_eq!(stage.sizes(), [MIB, 256 * KIB, 512 * KIB]);
        // Bytes behind the last whole block are not served.
        stage.file.set_len(2 * MIB + 100).unwrap();
        assert_eq!(stage.sizes(), [2 * MIB, 256 * KIB, 1536 * KIB]);
        let mut new = stage.go("disk");
        assert_eq!(error_of(&mut new, 1, 2 * MIB - 512, 512), 0);
        assert_eq!(new.read(2 * MIB - 512, 512), [9; 512]);
        assert_eq!(error_of(&mut old, 0, MIB, 512), EINVAL, "it was told 1 MiB");
        assert_eq!(old.read(MIB - 512, 512), [7; 512]);
        assert_eq!(stage.device.size(), 2 * MIB);

        stage.file.set_len(640 * KIB).unwrap();
        assert_eq!(error_of(&mut old, 0, 768 * KIB, 512), EIO, "nobody has looked yet");
        assert_eq!(stage.sizes(), [640 * KIB, 256 * KIB, 128 * KIB]);
        for c in [&mut old, &mut new] {
            assert_eq!(error_of(c, 0, 768 * KIB, 512), EINVAL);
            assert_eq!(error_of(c, 1, 768 * KIB, 512), ENOSPC);
            assert_eq!(error_of(c, 1, 640 * KIB - 512, 1024), ENOSPC, "over the border");
            assert_eq!(error_of(c, 3, 0, 0), 0, "a flush has no range");
            assert_eq!(c.read(640 * KIB - 512, 512), [7; 512]);
        }
        assert_eq!(stage.file.metadata().unwrap().len(), 640 * KIB, "it was not written to");

        stage.file.set_len(300 * KIB).unwrap();
        assert_eq!(stage.device.refresh_size().unwrap(), 300 * KIB);
        assert_eq!(stage.sizes(), [300 * KIB, 256 * KIB, 0]);
        let mut nothing = stage.go("last");
        assert_eq!(error_of(&mut nothing, 0, 0, 512), EINVAL);
        stage.file.set_len(0).unwrap();
        assert_eq!(stage.sizes(), [0; 3]);
        stage.file.set_len(MIB).unwrap();
        assert_eq!(stage.sizes(), [MIB, 256 * KIB, 512 * KIB]);
        assert_eq!(old.read(768 * KIB, 512), [0; 512], "back again, and empty");
    }
}

#[test]
fn nothing_comes_to_harm_while_a_file_grows_and_shrinks_under_load() {
    let stage = Stage::new(Way::Best);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = stream(1, "resize");
            while !over.load(Ordering::Relaxed) {
                stage.file.set_len(random.below(8) * 256 * KIB + random.below(600)).unwrap();
                if random.below(2) == 0 {
                    stage.device.refresh_size().unwrap();
                }
            }
        });
        let users: Vec<_> = (0..3u64)
            .map(|user| {
                let stage = &stage;
                scope.spawn(move || {
                    let mut random = stream(user, "resize");
                    for _ in 0..40 {
                        let mut c = stage.go("disk");
                        for n in 0..50 {
                            let kind = [0, 1, 3, 4, 6, 0, 1][random.below(7) as usize];
                            let at = random.below(4096) * 512;
                            let len = (1 + random.below(64) as u32) * 512;
                            let len = if kind == 3 { 0 } else { len };
                            let data = vec![1; if kind == 1 { len as usize } else { 0 }];
                            c.send(kind, 0, n, if kind == 3 { 0 } else { at }, len, &data);
                        }
                        for _ in 0..50 {
                            let (_, error, _) = c.reply(&[]);
                            assert!([0, EIO, EINVAL, ENOSPC].contains(&error), "{error}");
                        }
                        c.disconnect();
                    }
                })
            })
            .collect();
        let ends: Vec<_> = users.into_iter().map(|user| user.join()).collect();
        over.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
    stage.file.set_len(MIB).unwrap();
    let mut c = stage.go("disk");
    assert_eq!((c.size, error_of(&mut c, 1, 0, 4096)), (MIB, 0));
    assert_eq!(c.read(0, 4096), [9; 4096]);
}

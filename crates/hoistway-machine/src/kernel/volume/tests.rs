//! Machines made of files, one per kind of stack.

use super::*;
use hoistway_serve::ServeError;
use std::os::unix::fs::symlink;

/// A tree with `/sys` and `/proc`.
struct Machine {
    root: PathBuf,
    mounts: String,
}

impl Machine {
    fn new(name: &str) -> Machine {
        let root =
            std::env::temp_dir().join(format!("hoistway-place-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("sys/dev/block")).unwrap();
        fs::create_dir_all(root.join("sys/class/block")).unwrap();
        fs::create_dir_all(root.join("sys/block")).unwrap();
        Machine { root, mounts: String::new() }
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A device in sysfs, below `devices/`.
    fn device(&self, path: &str, number: &str) -> String {
        let folder = format!("sys/devices/{path}");
        self.put(&format!("{folder}/dev"), &format!("{number}\n"));
        let full = self.root.join(&folder);
        let name = full.file_name().unwrap().to_str().unwrap();
        symlink(&full, self.root.join(format!("sys/dev/block/{number}"))).unwrap();
        symlink(&full, self.root.join(format!("sys/class/block/{name}"))).unwrap();
        symlink(&full, self.root.join(format!("sys/block/{name}"))).unwrap();
        folder
    }

    /// One that schedules.
    fn disk(&self, path: &str, number: &str) -> String {
        let folder = self.device(path, number);
        self.put(&format!("{folder}/mq/0/nr_tags"), "64\n");
        self.put(&format!("{folder}/queue/scheduler"), "[none] mq-deadline kyber bfq\n");
        folder
    }

    fn slave(&self, of: &str, device: &str) {
        let name = device.rsplit('/').next().unwrap();
        fs::create_dir_all(self.root.join(of).join("slaves")).unwrap();
        symlink(self.root.join(device), self.root.join(of).join("slaves").join(name)).unwrap();
    }

    fn mount(&mut self, number: &str, point: &str, kind: &str, source: &str, options: &str) {
        let id = 20 + self.mounts.lines().count();
        self.mounts +=
            &format!("{id} 1 {number} / {point} rw,relatime - {kind} {source} {options}\n");
        self.put("proc/self/mountinfo", &self.mounts);
        fs::create_dir_all(self.root.join(point.trim_start_matches('/'))).unwrap();
    }

    fn dir(&self, path: &str) -> Result<Volume, MachineError> {
        resolve_in(&System::below(&self.root), &VolumeTarget::Dir(path.into()))
    }

    fn at(&self, device: &str) -> Result<Volume, MachineError> {
        resolve_in(&System::below(&self.root), &VolumeTarget::Device(device.into()))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn names(queues: &[Queue]) -> Vec<&str> {
    queues.iter().map(|q| q.name.as_str()).collect()
}

const DISK: &str = "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block";

#[test]
fn a_partition_is_scheduled_by_its_disk() {
    let mut machine = Machine::new("partition");
    let disk = machine.disk(&format!("{DISK}/sda"), "8:0");
    let part = machine.device(&format!("{DISK}/sda/sda1"), "8:1");
    machine.put(&format!("{part}/partition"), "1\n");
    machine.put(&format!("{disk}/queue/rotational"), "0\n");
    machine.put(&format!("{disk}/size"), "2048\n");
    machine.put("sys/devices/pci0000:00/model", "");
    machine.put("dev/model", "");
    machine.mount("8:1", "/", "ext4", "/dev/sda1", "rw");
    machine.mount("0:30", "/run", "tmpfs", "tmpfs", "rw");
    let place = machine.dir("/").unwrap();
    assert_eq!(place.describe(), "/ (ext4) -> sda1 -> sda [none] mq-deadline kyber bfq");
    assert_eq!((place.queues[0].number.as_str(), place.read_only()), ("8:0", false));
    let identity = place.queues[0].identity();
    assert_eq!((identity.class.as_str(), identity.bytes), ("sata-ssd", 1 << 20));
    assert_eq!(machine.at("/dev/sda").unwrap().in_use(), ["sda1 is mounted at /"]);
    machine.put("proc/swaps", "Filename Type\n/dev/sda1 partition 100 0 -2\n");
    assert_eq!(machine.at("/dev/sda1").unwrap().in_use().len(), 2);
    let error = machine.dir("/run").unwrap_err().to_string();
    assert!(error.contains("nothing schedules here: its files lie in memory"), "{error}");
}

#[test]
fn volumes_and_encryption_pass_through() {
    let mut machine = Machine::new("dm");
    machine.disk("pci0/nvme/nvme0/nvme0n1", "259:0");
    let part = machine.device("pci0/nvme/nvme0/nvme0n1/nvme0n1p2", "259:2");
    machine.put(&format!("{part}/partition"), "2\n");
    let crypt = machine.device("virtual/block/dm-0", "254:0");
    machine.put(&format!("{crypt}/dm/name"), "luks-1\n");
    machine.put(&format!("{crypt}/dm/uuid"), "CRYPT-LUKS2-abc-luks-1\n");
    // What it says of schedulers counts for nothing: it has no tags.
    machine.put(&format!("{crypt}/queue/scheduler"), "none\n");
    machine.slave(&crypt, &part);
    let home = machine.device("virtual/block/dm-1", "254:1");
    machine.put(&format!("{home}/dm/name"), "vg-home\n");
    machine.put(&format!("{home}/dm/uuid"), "LVM-xyz\n");
    machine.slave(&home, &crypt);
    machine.mount("254:1", "/home", "xfs", "/dev/mapper/vg-home", "rw");
    let place = machine.dir("/home").unwrap();
    assert_eq!(
        place.describe(),
        "/home (xfs) -> dm-1 (lvm vg-home) -> dm-0 (crypt) -> nvme0n1p2 -> \
         nvme0n1 [none] mq-deadline kyber bfq"
    );
    assert_eq!(place.queues[0].identity().class, "nvme");
}

#[test]
fn a_raid_has_the_queues_of_its_members() {
    let mut machine = Machine::new("md");
    let raid = machine.device("virtual/block/md0", "9:0");
    machine.put(&format!("{raid}/md/level"), "raid1\n");
    for (disk, number) in [("sda", "8:0"), ("sdb", "8:16")] {
        let folder = machine.disk(&format!("pci0/{disk}"), number);
        machine.slave(&raid, &folder);
    }
    machine.mount("9:0", "/srv", "ext4", "/dev/md0", "rw");
    let place = machine.dir("/srv").unwrap();
    assert_eq!(names(&place.queues), ["sda", "sdb"]);
    assert_eq!(place.describe().lines().count(), 2);
    assert!(place.describe().starts_with("/srv (ext4) -> md0 (raid1) -> sda "));
}

#[test]
fn multipath_schedules_above_its_paths() {
    let machine = Machine::new("multipath");
    let head = machine.disk("virtual/block/dm-3", "254:3");
    machine.put(&format!("{head}/dm/name"), "mpatha\n");
    machine.put(&format!("{head}/dm/uuid"), "mpath-3600\n");
    let path = machine.disk("pci0/sdc", "8:32");
    machine.slave(&head, &path);
    let place = machine.at("/dev/dm-3").unwrap();
    assert_eq!(names(&place.queues), ["dm-3"]);
}

#[test]
fn the_head_of_nvme_multipath_schedules_at_its_paths() {
    let machine = Machine::new("nvme");
    machine.device("virtual/nvme-subsystem/nvme-subsys1/nvme1n2", "259:5");
    machine.disk("pci0/nvme/nvme1/nvme1c1n2", "259:6");
    machine.disk("pci0/nvme/nvme2/nvme1c2n2", "259:7");
    machine.disk("pci0/nvme/nvme2/nvme1c2n1", "259:8");
    let place = machine.at("/dev/nvme1n2").unwrap();
    assert_eq!(names(&place.queues), ["nvme1c1n2", "nvme1c2n2"]);
    assert!(
        place.describe().starts_with("nvme1n2 (multipath head, schedules nothing) -> nvme1c1n2 ")
    );
}

#[test]
fn btrfs_lies_on_all_its_members() {
    let mut machine = Machine::new("btrfs");
    for (disk, number) in [("sda", "8:0"), ("sdb", "8:16"), ("sdc", "8:32")] {
        machine.disk(&format!("pci0/{disk}"), number);
    }
    let devices = machine.root.join("sys/fs/btrfs/uuid-1/devices");
    fs::create_dir_all(&devices).unwrap();
    for disk in ["sda", "sdc"] {
        symlink(machine.root.join(format!("sys/devices/pci0/{disk}")), devices.join(disk)).unwrap();
    }
    machine.mount("0:44", "/data", "btrfs", "/dev/sdc", "rw,subvol=/");
    let place = machine.dir("/data").unwrap();
    assert_eq!(names(&place.queues), ["sda", "sdc"]);
    assert_eq!(machine.at("/dev/sdc").unwrap().in_use(), ["sdc is mounted at /data"]);
}

#[test]
fn a_loop_device_schedules_and_its_files_device_does_again() {
    let mut machine = Machine::new("loop");
    machine.disk("pci0/vda", "253:0");
    let device = machine.disk("virtual/block/loop0", "7:0");
    machine.mount("253:0", "/", "ext4", "/dev/vda", "rw");
    machine.put("image", "");
    machine.put(&format!("{device}/loop/backing_file"), "/image\n");
    machine.mount("7:0", "/mnt", "ext4", "/dev/loop0", "ro");
    let place = machine.dir("/mnt").unwrap();
    assert_eq!((names(&place.queues), names(&place.again)), (vec!["loop0"], vec!["vda"]));
    assert_eq!(
        place.describe(),
        "/mnt (ext4) -> loop0 (backing file /image) [none] mq-deadline kyber bfq -> \
         vda [none] mq-deadline kyber bfq (schedules a second time)"
    );
}

#[test]
fn an_overlay_is_what_takes_its_writes() {
    let mut machine = Machine::new("overlay");
    machine.disk("pci0/sda", "8:0");
    machine.mount("8:0", "/", "ext4", "/dev/sda", "rw");
    fs::create_dir_all(machine.root.join("up")).unwrap();
    machine.mount(
        "0:50",
        "/merged",
        "overlay",
        "overlay",
        "rw,lowerdir=/l,upperdir=/up,workdir=/w",
    );
    machine.mount("0:51", "/hidden", "overlay", "overlay", "rw,lowerdir=/l,upperdir=/none");
    let place = machine.dir("/merged").unwrap();
    assert_eq!(place.describe(), "/merged (overlay on ext4 /) -> sda [none] mq-deadline kyber bfq");
    let error = machine.dir("/hidden").unwrap_err().to_string();
    assert!(error.contains("a volume that is mounted into the container"), "{error}");
}

#[test]
fn where_nothing_schedules_it_says_why_and_what_to_do() {
    let mut machine = Machine::new("nothing");
    machine.device("virtual/block/zram0", "251:0");
    for (point, kind) in
        [("/nfs", "nfs4"), ("/zfs", "zfs"), ("/fuse", "fuse.sshfs"), ("/odd", "odd")]
    {
        machine.mount("0:60", point, kind, "x", "rw");
        let error = machine.dir(point).unwrap_err();
        let MachineError::Lack(lack) = &error else { panic!("{error}") };
        assert!(lack.why.starts_with("nothing schedules here: "), "{lack}");
        assert!(!lack.remedy.is_empty());
    }
    let error = machine.at("/dev/zram0").unwrap_err().to_string();
    assert!(error.contains("zram0 takes I/O as it comes, without tags"), "{error}");
    assert!(matches!(machine.at("/dev/none"), Err(MachineError::Serve(ServeError::NotADisk(_)))));
}

#[test]
fn this_machine_is_resolved() {
    // Whatever lies below the build: a chain, or words that say why there is none.
    let here = VolumeTarget::Dir(std::env::current_dir().unwrap());
    match resolve(&here) {
        Ok(place) => {
            let queue = &place.queues[0];
            assert!(queue.schedulers().unwrap().contains(&queue.scheduler().unwrap()));
            assert!(queue.diskstats().unwrap().read_bytes > 0);
            assert!(place.describe().contains(&queue.name), "{}", place.describe());
        }
        Err(MachineError::Lack(lack)) => assert!(lack.why.contains("nothing schedules here")),
        Err(error) => panic!("{error}"),
    }
}

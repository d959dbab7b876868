//! Drive files: every embedded one is good, every mistake is named with file and line.

use hoistway::{Instant, Op};
use hoistway_sim::drive::{Command, DriveFile, DriveOutput, MODELS};
use hoistway_sim::rng;

const HDD: &str = "hitachi-hts727550a9e364";

fn text() -> &'static str {
    DriveFile::embedded(HDD).unwrap()
}

fn error(text: &str) -> String {
    DriveFile::parse("dir/my.toml", text).expect_err("it should be refused").0
}

/// Number of the first line that begins so.
fn line(of: &str) -> usize {
    text().lines().position(|l| l.starts_with(of)).unwrap() + 1
}

#[test]
fn the_embedded_list_is_the_folder() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../drives");
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|f| Some(f.unwrap().file_name().to_str()?.strip_suffix(".toml")?.to_string()))
        .collect();
    found.sort();
    assert_eq!(found, DriveFile::ids());
}

#[test]
fn every_embedded_drive_loads_and_builds() {
    for id in DriveFile::ids() {
        let text = DriveFile::embedded(id).unwrap();
        if !MODELS.iter().any(|m| text.contains(&format!("model = \"{}\"", m.name))) {
            continue;
        }
        let file = DriveFile::load(id).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(file.id, id);
        file.build(1);
        let device = file.device();
        assert_eq!(device.capacity.bytes().0, file.identity.capacity_bytes);
        assert_eq!(device.queue_depth, file.host.queue_depth);
        assert!(device.max_sectors.0 <= 2560 && device.max_sectors.0 >= 8);
        assert_eq!(device.nr_requests, 2 * device.queue_depth.min(128));
    }
}

#[test]
fn the_device_of_two_actuators_has_two_ranges() {
    let file = DriveFile::load("hdd-nearline-18tb-dual-actuator").unwrap();
    let device = file.device();
    let [a, b] = device.actuators[..] else { panic!("two ranges") };
    assert_eq!((a.0.0, a.1, b.1), (0, b.0, device.capacity));
    assert_eq!(b.0.0 * 512, file.identity.capacity_bytes / 2);
    assert!(DriveFile::load(HDD).unwrap().device().actuators.is_empty());
}

#[test]
fn mistakes_are_named_with_file_line_and_the_nearest_key() {
    // What is replaced, by what, begin of the line complained about (or a number), the message.
    let cases: &[(&str, &str, &str, &str)] = &[
        (
            "queue_depth",
            "queue_dept",
            "queue_depth",
            "unknown key 'queue_dept'; did you mean 'queue_depth'?",
        ),
        ("rpm = 7200", "", "[hdd]", "missing key 'rpm' in table [hdd]"),
        ("rpm = 7200", "rpm = \"fast\"", "rpm", "rpm = \"fast\" must be an integer"),
        ("rpm = 7200", "rpm = 0", "rpm", "rpm = 0 is outside 1..=1000000"),
        ("rpm = 7200", "rpm = 7200.5", "rpm", "rpm = 7200.5 must be an integer"),
        ("schema = 1", "schema = 2", "schema", "schema = 2 is outside 1..=1"),
        ("name = ", "title = ", "# Reference", "missing key 'name' (it is not inherited)"),
        ("model = \"hdd\"", "model = \"tape\"", "model", "unknown model 'tape'; models are"),
        ("[hdd]", "[hddd]", "[hdd]", "unknown table [hddd]; did you mean 'hdd'?"),
        ("[link]", "[linkk]", "[link]", "unknown table [linkk]; did you mean 'link'?"),
        ("[iocost]", "[iocosts]", "[iocost]", "unknown table [iocosts]; did you mean 'iocost'?"),
        ("bytes = 512", "bytes = 520", "sector_bytes", "sector_bytes = 520 must be 512 or"),
        ("7862016", "7862017", "capacity_bytes", "capacity_bytes = 500107862017 must be a mul"),
        ("\"half\"", "\"both\"", "duplex", "duplex = \"both\" must be one of \"half\", \"full\""),
        (
            "rate_mb_s = 270",
            "rate_mb_s = 0",
            "rate_mb_s",
            "rate_mb_s = 0 is outside 0.001..=1000000",
        ),
        ("file_mib = 500", "\tx = \"y\"", "file_mib", "x must be a number"),
        ("year = 2011", "rpm = 1", "year", "unknown key 'rpm'; it belongs to table [hdd]"),
        ("zones = 24", "zones = = 24", "zones", ""),
        ("zones = 24", "seek_knots = [[1, 2]]", "zones", "seek_knots = [[1, 2]] must be a list"),
    ];
    for (from, to, at, message) in cases {
        assert!(text().contains(from), "{from}");
        let got = error(&text().replacen(from, to, 1));
        let wanted = format!("dir/my.toml:{}: {message}", line(at));
        assert!(got.starts_with(&wanted), "{from} -> {to}:\n{got}\nwanted\n{wanted}");
    }
    let unknown = DriveFile::load("plextor-px-256m5").unwrap_err().0;
    assert!(unknown.contains("did you mean 'plextor-px-256m5s'?"), "{unknown}");
    let no_table: String =
        text().lines().take_while(|l| *l != "[iocost]").collect::<Vec<_>>().join("\n");
    assert_eq!(error(&no_table), "dir/my.toml:1: missing table [iocost]");
}

#[test]
fn a_derived_file_says_only_what_differs() {
    let derived = "name = \"slow\"\nbase = \"hitachi-hts727550a9e364\"\n[hdd]\nrpm = 5400\n";
    let file = DriveFile::parse("slow.toml", derived).unwrap();
    assert_eq!((file.id.as_str(), file.name.as_str()), ("slow", "slow"));
    assert_eq!((file.u64("hdd", "rpm"), file.u64("hdd", "heads")), (5400, 2));
    assert_eq!(file.baseline["file_start_frac"], 0.05);
    assert!(!file.table.contains_key("base"));

    let wrong = "name = \"x\"\nbase = \"hitachi-hts727550a9e364\"\n[hdd]\nrmp = 5400\n";
    assert_eq!(error(wrong), "dir/my.toml:4: unknown key 'rmp'; did you mean 'rpm'?");
    let nameless = "base = \"hitachi-hts727550a9e364\"\n";
    assert!(error(nameless).starts_with("dir/my.toml:1: missing key 'name'"));
    let nowhere = "name = \"x\"\nbase = \"hitachi\"\n";
    assert!(error(nowhere).starts_with("dir/my.toml:2: no drive 'hitachi'"));
}

#[test]
fn derivation_by_path_ends_at_cycles_and_after_eight_levels() {
    let folder = std::env::temp_dir().join(format!("hoistway-drives-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, base: &str| {
        let text = format!("name = \"{name}\"\nbase = \"{base}\"\n");
        std::fs::write(folder.join(name), text).unwrap();
    };
    let load = |name: &str| DriveFile::load(folder.join(name).to_str().unwrap());
    write("a.toml", "b.toml");
    write("b.toml", "a.toml");
    let cycle = load("a.toml").unwrap_err().0;
    assert!(cycle.ends_with("b.toml:2: base = \"a.toml\" makes a cycle"), "{cycle}");
    // Seven derived files above the embedded one are eight levels.
    write("1.toml", HDD);
    for n in 2..=8 {
        write(&format!("{n}.toml"), &format!("{}.toml", n - 1));
    }
    assert_eq!(load("7.toml").unwrap().u64("hdd", "rpm"), 7200);
    let deep = load("8.toml").unwrap_err().0;
    assert!(deep.contains("1.toml:2: more than 8 files"), "{deep}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// One random change of one line.
fn mutate(lines: &mut Vec<String>, r: &mut rng::Rng) {
    const VALUES: [&str; 12] = [
        "0",
        "-1",
        "1e300",
        "nan",
        "inf",
        "9223372036854775807",
        "\"\"",
        "[]",
        "{}",
        "true",
        "0.5",
        "1",
    ];
    let n = r.below(lines.len() as u64) as usize;
    match r.below(4) {
        0 => drop(lines.remove(n)),
        1 => {
            let value = VALUES[r.below(VALUES.len() as u64) as usize];
            if let Some((key, _)) = lines[n].split_once('=') {
                lines[n] = format!("{key}= {value}");
            }
        }
        2 => {
            let m = r.below(lines.len() as u64) as usize;
            lines.swap(n, m);
        }
        _ => {
            let mut bytes = lines[n].clone().into_bytes();
            if !bytes.is_empty() {
                let at = r.below(bytes.len() as u64) as usize;
                bytes[at] = r.below(256) as u8;
            }
            lines[n] = String::from_utf8_lossy(&bytes).into_owned();
        }
    }
}

/// A drive of strange but accepted figures still completes what it gets.
fn exercise(file: &DriveFile) {
    let mut drive = file.build(1);
    let (sector, capacity) = (file.identity.sector_bytes, file.identity.capacity_bytes);
    let ops = [Op::Read, Op::Write, Op::Read, Op::Discard, Op::Write, Op::Flush, Op::Read];
    for (tag, &op) in (0..).zip(&ops) {
        let start = (capacity / 8 * tag) / sector * sector;
        let len = if op == Op::Flush { 0 } else { sector };
        let command = Command { tag, op, start: start.min(capacity - len), len, fua: tag == 4 };
        drive.handle(Instant::ZERO, command);
    }
    let (mut now, mut done) = (Instant::ZERO, 0);
    loop {
        match drive.poll(now) {
            DriveOutput::Done(_) => done += 1,
            DriveOutput::WaitUntil(Some(at)) => now = at,
            DriveOutput::WaitUntil(None) => break,
        }
    }
    assert_eq!(done, ops.len());
}

/// Whatever happens to a file: it is read, or refused with a line.
#[test]
fn mutated_files_never_panic() {
    let mut r = rng::stream(1, "mutate");
    let mut good = 0;
    for id in DriveFile::ids() {
        let original = DriveFile::embedded(id).unwrap();
        for _ in 0..200 {
            let mut lines: Vec<String> = original.lines().map(str::to_string).collect();
            for _ in 0..1 + r.below(3) {
                mutate(&mut lines, &mut r);
            }
            match DriveFile::parse("m.toml", &lines.join("\n")) {
                Ok(file) => {
                    good += 1;
                    file.device();
                    file.build(1);
                    if file.model == "hdd" {
                        exercise(&file);
                    }
                }
                Err(e) => {
                    let at = e.0.strip_prefix("m.toml:").and_then(|e| e.split_once(": "));
                    let number = at.and_then(|(n, _)| n.parse::<usize>().ok());
                    assert!(number.is_some_and(|n| n >= 1 && n <= lines.len() + 1), "{e}");
                }
            }
        }
    }
    assert!(good > 50, "some mutations are harmless, {good} were");
}

/// A value that is also the base's would stay behind when that one is measured again.
#[test]
fn shipped_files_state_only_what_differs_from_their_base() {
    let mut derived = 0;
    for id in DriveFile::ids() {
        let own: toml::Table = DriveFile::embedded(id).unwrap().parse().unwrap();
        let Some(base) = own.get("base").and_then(|b| b.as_str()) else { continue };
        let base = DriveFile::load(base).unwrap().table;
        derived += 1;
        for (table, keys) in own.iter().filter_map(|(t, v)| Some((t, v.as_table()?))) {
            for (key, value) in keys {
                let of_base = base.get(table).and_then(|t| t.get(key));
                assert_ne!(of_base, Some(value), "{id}: [{table}] {key}");
            }
        }
    }
    assert!(derived > 5, "{derived}");
}

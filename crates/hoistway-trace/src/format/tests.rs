//! A sample of every format, what it must become, and what random damage must not do.

mod recognition;

use super::*;
use crate::blktrace::{Event, Writer, action, category};
use crate::{Flags, Kind, Op, Reader};

const BLKPARSE: &str = "\
  8,0    3        1     0.009507758   697  Q   R 223490 + 56 [kjournald]
  8,0    3        2     0.009507800   697  G   R 223490 + 56 [kjournald]
  8,0    3        3     0.009508000   697  P   N [kjournald]
  8,0    3        4     0.009509000   697  U   N [kjournald] 1
  8,0    3        5     0.009510000   697  D   R 223490 + 56 [kjournald]
  8,0    1        6     0.010507758     0  C   R 223490 + 56 [0]
  8,0    1        7     0.010600000   700  Q FWFS 8 + 8 [Web Content]
  8,0    1        8     0.010700000   700  Q FWS [Web Content]
CPU0 (8,0):
 Reads Queued:           1,       28KiB  Writes Queued:           2,        4KiB
";
const IOLOG_2: &str = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 4096 8192\n\
                       /dev/sda wait 150\n/dev/sda write 0 512\n/dev/sda sync 0 0\n/dev/sda wait 20\n\
                       /dev/sda trim 512 512\n/dev/sda close\n";
const IOLOG_3: &str = "fio version 3 iolog\n21 /d/f add\n141 /d/f open\n147 /d/f write 0 4096\n\
                       200147 /d/f read 8192 4096\n200200 /d/f close\n";
const PERF: &str = "\
# comment
             fio  1234 [003] 205791.409875: block:block_bio_queue: 8,16 RM 390439208 + 8 [fio]
             fio  1234 [003] 205791.409880: block:block_rq_issue: 8,16 RM 4096 () 390439208 + 8 none,0,0 [fio]
     swapper 0 [006] 205791.410000: block:block_rq_complete: 8,16 RM () 390439208 + 8 none,0,0 [0]
     Web Content  77 [001] 205791.410001: block:block_bio_queue: 8,16 WS 8 + 16 [Web Content]
     jbd2/sda1-8  9 [001] 205791.410002: block:block_bio_queue: 8,16 FF 18446744073709551615 + 0 [jbd2/sda1-8]
";
const FTRACE: &str = "\
             fio-1234    [003] .....   791.409875: block_rq_insert: 8,16 W 4096 () 390439208 + 8 none,0,0 [fio]
             fio-1234    [003] d..1.   791.409876: block_rq_issue: 8,16 W 4096 () 390439208 + 8 none,0,0 [fio]
    kworker/0:1H-55      [000] .....   791.410000: block_plug: [kworker/0:1H]
";
const BIOSNOOP: &str = "\
Tracing block device I/O... Hit Ctrl-C to end.
TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   QUE(ms) LAT(ms)
0.000004    supervise      1950   xvda1   W 13092560   4096      0.01    0.74
0.000178    Web Content    1951   xvda1   R 13092432   8192      0.00    0.61
";
const MSR: &str = "128166372003061629,usr,0,Read,7014609920,24576,41286\n";
const ALIBABA: &str = "419,W,57344,4096,1577808000000626\n725,R,0,512,1577808000001626\n";
const TENCENT: &str =
    "1538323199,8,16,0,1063\n1538323199,0,8,1,1064\n1538323200,0,8,1,1063\n1538323200,16,8,0,1\n";
const SPC: &str = "0,303567,3584,w,0.000000\n1,55590,3072,R,0.026214,x,y\n";
const SYSTOR: &str = "Timestamp,Response,IOType,LUN,Offset,Size\n\
                      1456095145.133076000,0.000806000,R,0,899056122368,131072\n\
                      1456095145.133077000,,W,4,512,512\n1456095145.2,0.1,,4,512,512\n";
const FIU: &str = "89968195792462 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523\n\
                   89968195792562 20783 my prog 8 16 W 6 0 56f11b711d91a065a2b6458eca924523\n";
const DISKSIM: &str = "13.191135 30 0 5 1\n17.829285 20 576560 6 0\n";
const MQSIM: &str = "4851300 1 524288 16 0\n4864300 1 524304 16 1\n";

/// A recording of two processes: a read in a plug, its completion, a write of a cgroup, a flush.
fn blktrace() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    let event = |time, what, pid| Event {
        time,
        action: what,
        pid,
        device: 8 << 20 | 16,
        ..Event::default()
    };
    let data = |e: Event, sector, bytes| Event { sector, bytes, ..e };
    let read = category::READ | category::FS;
    writer.process(10, 7, "fio").unwrap();
    writer.event(&event(10, action::PLUG | category::QUEUE, 7), &[]).unwrap();
    writer.event(&data(event(20, action::QUEUE | read, 7), 100, 4096), &[]).unwrap();
    writer.event(&event(30, action::UNPLUG | category::QUEUE, 7), &1_u64.to_be_bytes()).unwrap();
    writer.event(&data(event(40, action::ISSUE | read, 7), 100, 4096), &[]).unwrap();
    let group = action::QUEUE | action::CGROUP | category::WRITE | category::SYNC | category::FUA;
    writer.event(&data(event(45, group, 8), 0, 512), &77_u64.to_le_bytes()).unwrap();
    writer.event(&data(event(50, action::COMPLETE | read, 0), 100, 4096), &[]).unwrap();
    let flush = action::QUEUE | category::WRITE | category::FLUSH;
    writer.event(&data(event(60, flush, 8), u64::MAX, 0), &[]).unwrap();
    writer.finish().unwrap()
}

/// The samples with the format each must be recognised as.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let mut all: Vec<(&str, Vec<u8>)> = [
        ("blkparse", BLKPARSE),
        ("iolog", IOLOG_2),
        ("iolog", IOLOG_3),
        ("perf", PERF),
        ("perf", FTRACE),
        ("biosnoop", BIOSNOOP),
        ("msr", MSR),
        ("alibaba", ALIBABA),
        ("tencent", TENCENT),
        ("spc", SPC),
        ("systor", SYSTOR),
        ("fiu", FIU),
        ("disksim", DISKSIM),
        ("mqsim", MQSIM),
    ]
    .map(|(name, text)| (name, text.as_bytes().to_vec()))
    .into();
    all.push(("blktrace", blktrace()));
    all
}

fn everything() -> Options {
    Options { completions: true, plugs: true, strict: true, ..Options::default() }
}

fn read(bytes: &[u8], options: &Options) -> (Vec<Record>, Reader) {
    let mut reader = Reader::from_bytes("t", bytes.to_vec(), options).unwrap();
    let (mut out, mut record) = (Vec::new(), Record::default());
    while reader.read(&mut record).unwrap() {
        out.push(record);
    }
    (out, reader)
}

/// `time op flags offset len process device [kind] [response]`, one record a line.
fn shown(bytes: &[u8]) -> Vec<String> {
    let (records, reader) = read(bytes, &everything());
    let names = reader.names();
    let line = |r: &Record| {
        let mut text = format!("{} {} {:?} {}+{}", r.time, r.op, r.flags, r.offset, r.len);
        text += &format!(" {} {}", names.processes.name(r.process), names.devices.name(r.device));
        if r.kind != Kind::Arrival {
            text += &format!(" {:?}", r.kind);
        }
        r.response.into_iter().for_each(|ns| text += &format!(" took {ns}"));
        text
    };
    records.iter().map(line).collect()
}

#[test]
fn every_sample_is_recognised_and_every_format_has_one() {
    let samples = samples();
    for (format, bytes) in &samples {
        let (records, reader) = read(bytes, &everything());
        assert_eq!(reader.format().unwrap().name, *format);
        assert!(!records.is_empty());
    }
    for format in FORMATS {
        assert!(samples.iter().any(|(name, _)| *name == format.name), "{}", format.name);
        assert!(std::ptr::eq(Format::named(format.name).unwrap(), *format));
    }
}

#[test]
fn linux_tracers() {
    assert_eq!(
        shown(BLKPARSE.as_bytes()),
        [
            "0 read  114426880+28672 kjournald/697 8,0",
            "242 read  0+0 kjournald/697 8,0 Plug",
            "1242 read  0+1 kjournald/697 8,0 Unplug",
            "1000000 read  114426880+28672 - 8,0 Complete",
            "1092242 write SFP 4096+4096 Web Content/700 8,0",
            "1192242 flush S 0+0 Web Content/700 8,0",
        ]
    );
    assert_eq!(
        shown(PERF.as_bytes()),
        [
            "0 read M 199904874496+4096 fio/1234 8,16",
            "125000 read M 199904874496+4096 - 8,16 Complete",
            "126000 write S 4096+8192 Web Content/77 8,16",
            "127000 flush  0+0 jbd2/sda1-8/9 8,16",
        ]
    );
    assert_eq!(
        shown(FTRACE.as_bytes()),
        ["0 write  199904874496+4096 fio/1234 8,16", "125000 read  0+0 kworker/0:1H/55 - Plug",]
    );
    assert_eq!(
        shown(BIOSNOOP.as_bytes()),
        [
            "0 write  6703390720+4096 supervise/1950 xvda1 took 750000",
            "314000 read  6703325184+8192 Web Content/1951 xvda1 took 610000",
        ]
    );
    assert_eq!(
        shown(&blktrace()),
        [
            "0 read  0+0 fio/7 8,16 Plug",
            "10 read  51200+4096 fio/7 8,16",
            "20 read  0+1 fio/7 8,16 Unplug",
            "35 write SF 0+512 8 8,16",
            "40 read  51200+4096 0 8,16 Complete",
            "50 flush  0+0 8 8,16",
        ]
    );
    let (records, reader) = read(&blktrace(), &everything());
    assert_eq!(reader.names().groups.name(records[3].group), "cgroup 77");
    assert_eq!(reader.names().groups.name(records[1].group), "-");
}

#[test]
fn fio_logs() {
    assert_eq!(
        shown(IOLOG_2.as_bytes()),
        [
            "0 read  4096+8192 - /dev/sda",
            "150000 write  0+512 - /dev/sda",
            "150000 flush S 0+0 - /dev/sda",
            "170000 discard  512+512 - /dev/sda",
        ]
    );
    assert_eq!(
        shown(IOLOG_3.as_bytes()),
        ["0 write  0+4096 - /d/f", "200000000 read  8192+4096 - /d/f"]
    );
    for (text, what) in [
        ("0, 4096, 512\n1, 0, 512\n", "a fio iolog of version 1"),
        ("fio version 1 iolog\n", "a fio iolog of this version"),
        ("TIME(ms) DISK COMM PID LAT(ms)\n611 nvme0n1 bash 4179 10\n", "biosnoop.bt"),
    ] {
        let error = Reader::from_bytes("t", text.into(), &Options::default()).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn public_traces() {
    assert_eq!(shown(MSR.as_bytes()), ["0 read  7014609920+24576 - usr.0 took 4128600"]);
    assert_eq!(
        shown(ALIBABA.as_bytes()),
        ["0 write  57344+4096 - 419", "1000000 read  0+512 - 725"]
    );
    assert_eq!(
        shown(TENCENT.as_bytes()),
        [
            "0 read  4096+8192 - 1063",
            "500000000 write  0+4096 - 1064",
            "1000000000 write  0+4096 - 1063",
            "1500000000 read  8192+4096 - 1",
        ]
    );
    assert_eq!(
        shown(SPC.as_bytes()),
        ["0 write  155426304+3584 - 0", "26214000 read  28462080+3072 - 1"]
    );
    assert_eq!(
        shown(SYSTOR.as_bytes()),
        ["0 read  899056122368+131072 - 0 took 806000", "1000 write  512+512 - 4"]
    );
    assert_eq!(
        shown(FIU.as_bytes()),
        ["0 read  144994910208+4096 gzip/20782 6,0", "100 write  4096+8192 my prog/20783 6,0"]
    );
    assert_eq!(
        shown(DISKSIM.as_bytes()),
        ["0 read  0+2560 - 30", "4638150 write  295198720+3072 - 20"]
    );
    assert_eq!(
        shown(MQSIM.as_bytes()),
        ["0 write  268435456+8192 - 1", "13000 read  268443648+8192 - 1"]
    );
}

/// Exchanging any two columns of a public trace's lines is an error, or changes nothing a reader could notice: names and
/// sizes of the same kind.
#[test]
fn columns_in_another_order_are_errors() {
    // (format, sample, separator, pairs of columns that hold numbers of the same kind and cannot be told apart)
    type Pairs = &'static [(usize, usize)];
    let cases: [(&str, &str, char, Pairs); 6] = [
        ("msr", MSR, ',', &[(4, 5), (4, 6), (5, 6), (2, 4), (2, 5), (2, 6)]),
        ("alibaba", ALIBABA, ',', &[(0, 2), (0, 3), (2, 3)]),
        ("tencent", TENCENT, ',', &[(1, 2), (1, 3), (1, 4), (2, 4), (2, 3), (3, 4)]),
        ("spc", SPC, ',', &[(0, 1), (0, 2), (1, 2)]),
        ("systor", SYSTOR, ',', &[(3, 4), (3, 5), (4, 5)]),
        ("mqsim", MQSIM, ' ', &[(0, 2), (0, 3), (1, 3), (2, 3), (1, 4), (3, 4)]),
    ];
    for (name, text, separator, alike) in cases {
        let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with("Timestamp")).collect();
        let columns = lines[0].split(separator).count();
        for (i, j) in (0..columns).flat_map(|i| (i + 1..columns).map(move |j| (i, j))) {
            if alike.contains(&(i, j)) {
                continue;
            }
            let mut bytes = String::new();
            for line in &lines {
                let mut c: Vec<&str> = line.split(separator).collect();
                c.swap(i, j);
                bytes += &(c.join(&separator.to_string()) + "\n");
            }
            let options = Options { format: Format::named(name), ..Options::default() };
            let mut reader = Reader::from_bytes("t", bytes.into(), &options).unwrap();
            let mut record = Record::default();
            while let Ok(true) = reader.read(&mut record) {}
            assert!(reader.malformed() > 0, "{name}: columns {i} and {j} exchanged");
        }
    }
}

/// Numbers below an argument, the same every time.
fn xorshift(mut state: u64) -> impl FnMut(usize) -> usize {
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    }
}

/// No bytes make a reader panic, loop or fill memory: samples with random damage, read as every format.
#[test]
fn no_bytes_make_a_reader_panic() {
    let mut random = xorshift(0x9e37_79b9_7f4a_7c15);
    let samples = samples();
    for round in 0..3000 {
        let (_, whole) = &samples[random(samples.len())];
        let mut bytes = whole.repeat(1 + random(3));
        for _ in 0..random(12) {
            let at = random(bytes.len());
            match random(5) {
                0 => bytes[at] = random(256) as u8,
                1 => bytes.truncate(at.max(1)),
                2 => bytes.insert(at, b"0123456789, .\n[]-+"[random(18)]),
                3 => drop(bytes.remove(at)),
                _ => {
                    let end = (at + random(20)).min(bytes.len());
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
            }
            if bytes.is_empty() {
                bytes.push(b'\n');
            }
        }
        let format = (random(3) > 0).then(|| FORMATS[random(FORMATS.len())]);
        let options = Options {
            format,
            completions: random(2) == 0,
            plugs: random(2) == 0,
            window: Some(random(20)),
            ..Options::default()
        };
        let n = bytes.len();
        let Ok(mut reader) = Reader::from_bytes("t", bytes, &options) else { continue };
        let (mut record, mut records, mut last) = (Record::default(), 0, 0);
        while let Ok(true) = reader.read(&mut record) {
            records += 1;
            assert!(record.time >= last, "round {round}: time went back");
            assert!(record.len <= 1 << 32 || record.kind == Kind::Unplug, "round {round}");
            last = record.time;
        }
        assert!(records <= n, "round {round}");
    }
}

#[test]
fn a_damaged_event_is_one_malformed_record_and_the_rest_is_read() {
    let good = blktrace();
    let mut bytes = good.clone();
    bytes.extend_from_slice(&[0; 100]);
    bytes.extend_from_slice(&good);
    bytes.extend_from_slice(&good[..60]);
    let options = Options { window: Some(100), ..Options::default() };
    let (records, reader) = read(&bytes, &options);
    assert_eq!(records.len(), 6);
    assert_eq!(reader.malformed(), 2);
    let first = reader.first_malformed().unwrap();
    assert_eq!((first.line, first.byte), (None, good.len() as u64));
    assert!(first.to_string().contains("no magic number"));
}

/// A recording of a machine of the other byte order is the same recording.
#[test]
fn big_endian_events_are_read() {
    let mut swapped = blktrace();
    let mut at = 0;
    while at < swapped.len() {
        let payload = usize::from(u16::from_le_bytes([swapped[at + 46], swapped[at + 47]]));
        for (from, len) in [
            (0, 4),
            (4, 4),
            (8, 8),
            (16, 8),
            (24, 4),
            (28, 4),
            (32, 4),
            (36, 4),
            (40, 4),
            (44, 2),
            (46, 2),
        ] {
            swapped[at + from..at + from + len].reverse();
        }
        at += 48 + payload;
    }
    assert_eq!(shown(&swapped), shown(&blktrace()));
}

#[test]
fn the_files_of_the_cpus_are_merged_by_time() {
    let folder = std::env::temp_dir().join(format!("hoistway-trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (cpu, times) in [(0, [10_u64, 40, 50]), (2, [5, 45, 60])] {
        let mut writer = Writer::new(Vec::new());
        for time in times {
            let action = action::QUEUE | category::READ;
            let event = Event { time, action, bytes: 512, cpu, ..Event::default() };
            writer.event(&event, &[]).unwrap();
        }
        let file = folder.join(format!("sda.blktrace.{cpu}"));
        std::fs::write(file, writer.finish().unwrap()).unwrap();
    }
    // The window is off: the order is the merge's.
    let options = Options { window: Some(0), ..Options::default() };
    let mut reader = Reader::open(&folder.join("sda"), &options).unwrap();
    let (mut times, mut record) = (Vec::new(), Record::default());
    while reader.read(&mut record).unwrap() {
        times.push(record.time);
    }
    assert_eq!(times, [0, 5, 35, 40, 45, 55]);
    assert_eq!(reader.late(), 0);
    let error = Reader::open(&folder.join("sdb"), &options).unwrap_err().to_string();
    assert!(error.contains("no such file, nor") && error.contains("sdb.blktrace.0"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_is_written_is_read_back() {
    let (records, reader) = read(&blktrace(), &everything());
    let mut writer = crate::write::Blktrace::new(Vec::new());
    records.iter().for_each(|r| writer.record(r, reader.names()).unwrap());
    let written = writer.finish().unwrap();
    assert_eq!(shown(&written), shown(&blktrace()));

    let (records, reader) = read(IOLOG_3.as_bytes(), &everything());
    let mut writer = crate::write::Iolog::new(Vec::new());
    records.iter().for_each(|r| writer.record(r, reader.names()).unwrap());
    let written = writer.finish().unwrap();
    assert_eq!(shown(&written), shown(IOLOG_3.as_bytes()));
    assert!(written.starts_with(b"fio version 3 iolog\n0 /d/f add\n"));
    assert_eq!(records[0].flags, Flags::NONE);
    assert_eq!(records[0].op, Op::Write);
}

/// A recording of a real kernel (6.18, a loop device, fio with four random requests in flight), as tracefs printed it.
#[test]
fn a_recording_of_a_real_kernel_is_read_whole() {
    let bytes = include_bytes!("../../tests/data/loop-randrw.txt");
    let (records, reader) = read(bytes, &everything());
    let lines = bytes.split(|b| *b == b'\n');
    let with = |part: &str| {
        lines.clone().filter(|l| memchr::memmem::find(l, part.as_bytes()).is_some()).count()
    };
    let arrivals = records.iter().filter(|r| r.kind == Kind::Arrival).count();
    let completions = records.iter().filter(|r| r.kind == Kind::Complete).count();
    assert_eq!((arrivals, completions), (with("block_bio_queue"), with("block_rq_complete")));
    assert!(arrivals > 20 && completions > 20);
    assert_eq!((reader.format().unwrap().name, reader.malformed()), ("perf", 0));
    assert!(records.iter().all(|r| reader.names().devices.name(r.device) == "7,0"));
    let fio = |r: &&Record| reader.names().processes.name(r.process).starts_with("fio/");
    assert_eq!(records.iter().filter(fio).count(), arrivals);
}

#[test]
fn decimal_seconds_are_whole_nanoseconds() {
    let of = |text: &str| text::billionths(text.as_bytes(), "t").ok();
    let cases = [
        ("0", Some(0)),
        ("12", Some(12_000_000_000)),
        ("1.5", Some(1_500_000_000)),
        (" 0.000000001 ", Some(1)),
        ("0.0000000019", Some(1)),
        ("3.", Some(3_000_000_000)),
        (".5", None),
        ("1.2.3", None),
        ("1.0000000000x", None),
        ("-1", None),
        ("99999999999999", None),
    ];
    for (text, nanos) in cases {
        assert_eq!(of(text), nanos, "{text}");
    }
}

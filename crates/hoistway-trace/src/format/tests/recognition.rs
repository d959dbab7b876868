//! What is recognised with what around it: tables by kind, and stray lines by chance.

use super::*;

/// A public header or a tool's own lines, as they stand in front of the sample.
const HEADS: [(&str, &str); 12] = [
    ("msr", "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n"),
    ("alibaba", "device_id,opcode,offset,length,timestamp\n"),
    ("tencent", "Timestamp,Offset,Size,IOType,VolumeID\n"),
    ("systor", "Timestamp,Response,IOType,LUN,Offset,Size\n"),
    ("spc", "ASU,LBA,Size,Opcode,Timestamp\n"),
    ("fiu", "ts pid process lba size W|R major minor md5\n"),
    ("disksim", "arrival device block size flags\n"),
    ("mqsim", "arrival device lba size type\n"),
    ("blkparse", "Input file sda.blktrace.0 added\nInput file sda.blktrace.1 added\n"),
    ("perf", "# ========\n# captured on: today\n# ========\n#\ncpus=8\nCPU 3 is empty\n"),
    ("biosnoop", "Tracing block device I/O... Hit Ctrl-C to end.\n"),
    ("iolog", "# a comment\n\n"),
];

/// Format, requests and lines left out, or the error.
fn got(bytes: Vec<u8>) -> Result<(&'static str, u64, u64), String> {
    let mut reader =
        Reader::from_bytes("t", bytes, &Options::default()).map_err(|e| e.to_string())?;
    let (mut record, mut n) = (Record::default(), 0);
    while reader.read(&mut record).map_err(|e| e.to_string())? {
        n += u64::from(record.kind == Kind::Arrival);
    }
    Ok((reader.format().unwrap().name, n, reader.malformed()))
}

/// The samples of lines, twelve times each so that one line more is no majority, and their requests.
fn long_samples() -> Vec<(&'static str, String, u64)> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let lines = samples().into_iter().filter(|(name, _)| *name != "blktrace");
    let long = lines.map(|(name, bytes)| {
        let (head, body) = match name {
            "iolog" | "systor" => {
                let bytes = text(bytes);
                let (head, body) = bytes.split_once('\n').unwrap();
                (format!("{head}\n"), body.to_string())
            }
            _ => (String::new(), text(bytes)),
        };
        let whole = head + &body.repeat(12);
        let (format, n, left_out) = got(whole.clone().into()).unwrap();
        assert_eq!((format, left_out), (name, 0));
        (name, whole, n)
    });
    long.collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

/// A frame of one segment and one raw block.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let n = u32::try_from(bytes.len()).unwrap();
    assert!(n < 128 << 10, "one block");
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    out.extend_from_slice(&n.to_le_bytes());
    out.extend_from_slice(&(n << 3 | 1).to_le_bytes()[..3]);
    out.extend_from_slice(bytes);
    out
}

#[test]
fn heads_marks_line_ends_and_compression_change_nothing() {
    for (name, text, n) in long_samples() {
        let with_head = |head: &str| match name {
            // What stands before the first line of a log is no part of it.
            "systor" => text.clone(),
            _ => head.to_string() + &text,
        };
        let mut cases = vec![
            ("byte order mark", format!("\u{feff}{text}").into_bytes()),
            ("CRLF", text.replace('\n', "\r\n").into_bytes()),
            ("mark and CRLF", format!("\u{feff}{}", text.replace('\n', "\r\n")).into_bytes()),
            ("blank lines", text.replace('\n', "\n\n \n").into_bytes()),
            ("comments", with_head("# one\n#two\n").into_bytes()),
            ("no last line end", text.trim_end().as_bytes().to_vec()),
            ("gzip", gzip(text.as_bytes())),
            ("zstd", zstd(text.as_bytes())),
            ("gzip with a mark", gzip(format!("\u{feff}{text}").as_bytes())),
        ];
        let heads = HEADS.iter().filter(|(format, _)| *format == name);
        for (_, head) in heads {
            let more = with_head(head);
            cases.push(("head", more.clone().into_bytes()));
            cases.push(("mark and head", format!("\u{feff}{more}").into_bytes()));
            cases.push(("head and CRLF", more.replace('\n', "\r\n").into_bytes()));
            cases.push(("head again, as of `cat`", format!("{more}{head}").into_bytes()));
        }
        for (what, bytes) in cases {
            assert_eq!(got(bytes), Ok((name, n, 0)), "{name}: {what}");
        }
    }
}

#[test]
fn stray_lines_are_left_out_and_counted_wherever_they_stand() {
    for (name, text, n) in long_samples() {
        let lines: Vec<&str> = text.lines().collect();
        for stray in [
            "hello",
            "some words of a program, with a comma",
            "{\"a\": 1}",
            "--- 8< ---",
            "time op offset",
        ] {
            for at in [0, 1, lines.len() / 2, lines.len()] {
                let mut more = lines.clone();
                more.insert(at, stray);
                // Behind blkparse's summary nothing is an event until a device comes.
                let lost = u64::from(name != "blkparse" || at < 9);
                let found = got(more.join("\n").into_bytes());
                assert_eq!(found, Ok((name, n, lost)), "{name}: {stray:?} at {at}");
            }
        }
        // The last line is cut off: one request less, or the line is a summary, or the cut leaves a whole line.
        let cut = text.trim_end().len() - 9;
        let (format, m, left_out) = got(text.as_bytes()[..cut].to_vec()).unwrap();
        assert!(
            format == name && n - m <= 1 && left_out <= 1,
            "{name}: {m} of {n}, {left_out} left out"
        );
    }
}

#[test]
fn two_records_are_enough_with_a_head() {
    for (name, head) in HEADS.iter().filter(|(name, _)| *name != "iolog") {
        let sample = samples().into_iter().find(|(n, _)| n == name).unwrap().1;
        let (_, n, _) = got(sample.clone()).unwrap();
        let with: Vec<u8> = [head.as_bytes(), &sample].concat();
        assert_eq!(got(with), Ok((*name, n, 0)), "{name}");
        // A head alone is recognised where no other format has it, and has no request.
        let alone = got(head.as_bytes().to_vec());
        if *name == "biosnoop" {
            assert!(alone.unwrap_err().contains("no trace of a known format"));
        } else {
            assert_eq!(alone, Ok((*name, 0, 0)), "{name}");
        }
    }
    assert_eq!(got(b"fio version 3 iolog\n".to_vec()), Ok(("iolog", 0, 0)));
    assert_eq!(
        got(b"TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n".to_vec()),
        Ok(("biosnoop", 0, 0))
    );
}

#[test]
fn columns_are_read_by_the_names_in_the_header() {
    let read = |text: &str| shown(text.as_bytes());
    let usual = read(ALIBABA);
    let header = "timestamp,length,offset,opcode,device_id\n";
    let other = "1577808000000626,4096,57344,W,419\n1577808000001626,512,0,R,725\n";
    assert_eq!(read(&(header.to_string() + other)), usual);
    // An index as pandas writes it, and columns more.
    let more = ",Device,Op,Offset,Size,queue,Time\n0,419,W,57344,4096,1,1577808000000626\n\
                1,725,R,0,512,2,1577808000001626\n";
    assert_eq!(read(more), usual);
    let header = "type size lba device arrival\n";
    assert_eq!(
        read(&format!("{header}0 16 524288 1 4851300\n1 16 524304 1 4864300\n")),
        read(MQSIM)
    );
    // Offset and length cannot be told apart by their values, so a header that does not name one of them is refused.
    let header = "device_id,opcode,length,where,timestamp\n";
    let error = got((header.to_string() + ALIBABA).into()).unwrap_err();
    assert!(error.contains("offset is missing in the header"), "{error}");
    let header = "device_id,opcode,offset (sectors),length,timestamp\n";
    let error = got((header.to_string() + ALIBABA).into()).unwrap_err();
    assert!(error.contains("offset is in another unit"), "{error}");
    let error =
        got(("pid ts process lba size op major minor md5\n".to_string() + FIU).into()).unwrap_err();
    assert!(error.contains("another order than FIU's"), "{error}");
}

#[test]
fn stacks_losses_and_flushes_are_what_they_are() {
    let stacks = "\
# ========
fio 18234 [003] 284731.190100:  block:block_rq_issue: 259,0 R 4096 () 0 + 8 [fio]
        ffffffff8a5c1234 blk_mq_start_request+0x44 ([kernel.kallsyms])
        ffffffffc0101234 nvme_queue_rq+0x94 ([nvme])
                  4aef10 [unknown] (/usr/bin/fio)

cafe 0 [003] 284731.190412:  block:block_rq_complete: 259,0 R () 0 + 8 [0]
        ffffffff8a5c9999 blk_mq_end_request+0x24 ([kernel.kallsyms])

swapper     0 [003] 284731.190500: PERF_RECORD_LOST lost 12
CPU:1 [LOST 18 EVENTS]
            fio-18234   [003] .....   284731.190600: <stack trace>
 => blk_mq_start_request
fio 18234 [003] 284731.191100:  block:block_rq_issue: 259,0 W 4096 () 128 + 8 [fio]
";
    assert_eq!(got(stacks.into()), Ok(("perf", 2, 0)));
    let flushes = "\
TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)
0.000000    kworker/2:1    812            R 18446744073709551615 0         0.61
1.774198    PoolThread A   5270   nvme0n1 W 520198144  225280    0.48
1.774609    ?              0              R 0          0         0.21
1.774709    jbd2/nvme0n1p3 686    nvme0n1 R 18446744073709551615 0         0.19
";
    assert_eq!(got(flushes.into()), Ok(("biosnoop", 2, 2)));
    let lines: Vec<&str> = flushes.lines().collect();
    let all: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let many =
        all[..1].iter().cloned().chain((0..40).map(|_| all[1].clone())).chain([all[2].clone()]);
    let many: Vec<String> = many.collect();
    assert_eq!(got(many.join("\n").into()), Ok(("biosnoop", 1, 40)), "rows of flushes are its own");
    let options = Options::default();
    let (records, reader) = read(flushes.as_bytes(), &options);
    assert_eq!((records[1].op, records[1].len), (Op::Flush, 0));
    let first = reader.first_malformed().unwrap().to_string();
    assert!(first.starts_with("line 2: DISK is blank: a flush"), "{first}");
    let pass_through =
        "8,0 1 2 0.1 9 Q R 36 (12 00 00 00 24 00 ..) [smartd]\n8,0 1 3 0.2 9 C R (12 00) [0]\n";
    assert_eq!(got(format!("{BLKPARSE_ONE}{pass_through}").into()), Ok(("blkparse", 1, 0)));
}

const BLKPARSE_ONE: &str = "8,0 3 1 0.009507758 697 Q R 223490 + 56 [kjournald]\n";

#[test]
fn recordings_one_behind_the_other_keep_their_times() {
    let twice = |text: &str| {
        let (records, reader) = read(text.repeat(2).as_bytes(), &Options::default());
        assert_eq!((reader.recordings(), reader.late()), (1, 0));
        records.iter().map(|r| r.time / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!(twice(BLKPARSE), [0, 1, 1, 10, 11, 11], "behind a summary");
    let terminal = format!("Input file sda.blktrace.0 added\n{BLKPARSE_ONE}");
    assert_eq!(twice(&terminal), [0, 9]);
    assert_eq!(twice(IOLOG_3), [0, 200, 200, 400]);
}

#[test]
fn a_log_without_times_says_so() {
    let known = |text: &str| {
        let (_, reader) = read(text.as_bytes(), &Options::default());
        (reader.untimed(), reader.times_known())
    };
    let log = "fio version 2 iolog\n/d/f add\n/d/f open\n/d/f read 0 4096\n/d/f read 8192 4096\n/d/f close\n";
    assert_eq!(known(log), (2, false));
    assert_eq!(known("fio version 2 iolog\n/d/f read 0 4096\n"), (1, false));
    let waits = "fio version 2 iolog\n/d/f wait 100\n/d/f read 0 4096\n/d/f wait 50\n/d/f read 8192 4096\n\
                 /d/f read 0 512\n";
    assert_eq!(known(waits), (1, true));
    assert_eq!(known(IOLOG_2), (2, true));
    assert_eq!(known(IOLOG_3), (0, true));
    assert_eq!(known(MSR), (0, true), "one request has a time");
    assert_eq!(known(&MSR.repeat(3)), (0, false), "all at one instant");
    // A clock that goes back for most of the trace.
    let line = |s: u64| format!("0,8,512,r,{s}.0\n");
    let back: String = (1000..1010).chain(0..400).map(line).collect();
    let (_, reader) = read(back.as_bytes(), &Options { window: Some(4), ..Options::default() });
    assert!(reader.late() > 300 && !reader.times_known());
}

#[test]
fn absurd_times_are_no_times() {
    for (name, line) in [
        (
            "perf",
            " fio 1 [000] 18446744073.000000: block:block_rq_issue: 8,0 R 4096 () 800 + 8 [fio]\n",
        ),
        ("blkparse", "8,0 3 1 18446744073.0 697 Q R 223490 + 56 [kjournald]\n"),
        ("mqsim", "18446744073709551615 1 524288 16 0\n"),
        ("spc", "0,303567,3584,w,18446744073.0\n"),
        (
            "fiu",
            "18446744073709551615 20782 gzip 283193184 8 R 6 0 56f11b711d91a065a2b6458eca924523\n",
        ),
        ("msr", "184467440737095516,usr,0,Read,7014609920,24576,41286\n"),
        ("biosnoop", "18446744073.000004 supervise 1950 xvda1 W 13092560 4096 0.74\n"),
        ("iolog", "18446744073709551 /d/f read 0 4096\n"),
        ("disksim", "18446744073709.5 30 0 5 1\n"),
    ] {
        let (_, text, n) =
            long_samples().into_iter().rfind(|(format, ..)| *format == name).unwrap();
        let more = text.clone() + line;
        assert_eq!(got(more.into()), Ok((name, n, 1)), "{name}");
    }
}

#[test]
fn what_is_no_trace_is_named() {
    let mut tar = vec![0; 1024];
    tar[..7].copy_from_slice(b"usr.csv");
    tar[257..262].copy_from_slice(b"ustar");
    let utf_16 = |mark: &[u8], big: bool| -> Vec<u8> {
        let unit = |u: u16| if big { u.to_be_bytes() } else { u.to_le_bytes() };
        mark.iter().copied().chain(MSR.encode_utf16().flat_map(unit)).collect()
    };
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (Vec::new(), "t: is empty"),
        (vec![0; 1 << 20], "is no text, no recording of blktrace"),
        (b"\x7fELF\x02\x01\x01".to_vec(), "is a program"),
        (tar.clone(), "is a tar archive"),
        (gzip(&tar), "is a tar archive"),
        (b"PERFILE2........".to_vec(), "perf script"),
        (b"\x17\x08\x44tracing6\0".to_vec(), "trace-cmd report"),
        (utf_16(&[0xff, 0xfe], false), "is text in UTF-16"),
        (utf_16(&[0xfe, 0xff], true), "is text in UTF-16"),
        (utf_16(&[], false), "is text in UTF-16"),
        (blktrace()[..40].to_vec(), "holds no whole event"),
        ([b"\x08tae".to_vec(), vec![1; 100]].concat(), "in a version other than 7"),
        (b"[global]\nrw=randread\nbs=4k\n[a]\nsize=1g\n".to_vec(), "is a fio job file"),
        (
            b"schema = 1\nmodel = \"hdd\"\n[identity]\nsector_bytes = 512\n".to_vec(),
            "is a drive file",
        ),
        (b"schema = 1\ntitle = \"x\"\nworkloads = [\"a\"]\n".to_vec(), "is an experiment file"),
        (b"{\n  \"jobs\": []\n}\n".to_vec(), "is JSON"),
        (b"<!DOCTYPE html>\n<html><body>404</body></html>\n".to_vec(), "a download that failed"),
        (b"\n\n  \n".to_vec(), "no trace of a known format"),
        (b"Dear all,\nhere is the trace.\n".to_vec(), "`--format` names one of"),
    ];
    for (bytes, message) in cases {
        let error = got(bytes).unwrap_err();
        assert!(error.starts_with("t: ") && error.contains(message), "{message}: {error}");
        assert!(error.len() < 400, "{error}");
    }
    let format = Format::named("msr");
    let options = Options { format, ..Options::default() };
    for (bytes, message) in [
        (utf_16(&[0xff, 0xfe], false), "is text in UTF-16"),
        (vec![0; 40 << 20], "line 1 has no end within 16 MiB"),
    ] {
        let reader = Reader::from_bytes("t", bytes, &options);
        let error = match reader {
            Err(error) => error,
            Ok(mut reader) => reader.read(&mut Record::default()).unwrap_err(),
        };
        assert!(error.to_string().contains(message), "{error}");
    }
    let options = Options { format: Format::named("blktrace"), ..Options::default() };
    let mut reader = Reader::from_bytes("t", vec![0; 40 << 20], &options).unwrap();
    let error = reader.read(&mut Record::default()).unwrap_err().to_string();
    assert!(error.contains("holds no event of blktrace in 16 MiB"), "{error}");
}

#[test]
fn the_nearest_format_is_named_with_its_line() {
    let cases: &[(&str, &str)] = &[
        // Half of it and less.
        (
            "128166372003061629,usr,0,Read,0,512,1\n128166372003061630,usr,0,Trim,0,512,1\n\
             128166372003061630,usr,0,Trim,0,512,1\n",
            "nearest is msr (reads 1 of 3 lines; line 2: Type is neither Read nor Write: \"1281",
        ),
        // The columns of one, with times of another unit.
        (
            "1700000000000,usr,0,Read,0,512,1\n",
            "nearest is msr (has its columns; line 1: Timestamp is no file time",
        ),
        // Numbers alone are not enough: a type of 2.
        (
            "1 1 8 8 0\n2 1 8 8 1\n3 1 8 8 2\n4 1 8 8 1\n5 1 8 8 0\n",
            "nearest is mqsim (reads 4 of 5 lines; line 3: type is neither 0 (write) nor 1 (read)",
        ),
        // A log of fio without its first line.
        (
            "/d/f read 0 4096\n/d/f write 0 512\n",
            "nearest is iolog (has its columns; line 1: first line is not",
        ),
    ];
    for (text, message) in cases {
        let error = got(text.as_bytes().to_vec()).unwrap_err();
        assert!(error.contains(message) && error.contains("--format"), "{message}\n{error}");
    }
    // Of what no format reads nothing is shown; elsewhere no escapes of terminals, and long lines are cut.
    let error = got(b"root:x:0:0\nsecret,1,2,3,4\n".to_vec()).unwrap_err();
    assert!(!error.contains("root") && !error.contains("secret"), "{error}");
    let bad = MSR.replace("Read", "Trim").repeat(2);
    let escapes = MSR.to_string() + &bad.replace("usr", "u\u{1b}[31mx");
    let error = got(escapes.into()).unwrap_err();
    assert!(
        error.contains("line 2: Type") && !error.contains('\u{1b}') && !error.contains("[31m"),
        "{error}"
    );
    let long = MSR.to_string() + &bad.replace("usr", &"u".repeat(5000));
    let error = got(long.into()).unwrap_err();
    assert!(error.contains("...\"") && error.len() < 400, "{error}");
}

#[test]
fn a_mixture_is_refused_with_both_names() {
    let lines = MSR.repeat(5) + &ALIBABA.repeat(3);
    let error = got(lines.into()).unwrap_err();
    assert!(error.contains("fits the formats msr (5 lines) and alibaba (6 lines)"), "{error}");
    let mixed = "1.5 0 8 8 1\n2 0 8 8 1\n3 0 8 8 0\n";
    let error = got(mixed.as_bytes().to_vec()).unwrap_err();
    assert!(error.contains("disksim") && error.contains("mqsim"), "{error}");
}

/// A trace with lines of anything among its own is recognised as what it is, or refused; never taken for another.
#[test]
fn stray_lines_never_make_another_format() {
    let mut random = xorshift(0x2545_f491_4f6c_dd1d);
    let all = long_samples();
    let foreign: Vec<&str> = all.iter().flat_map(|(_, text, _)| text.lines()).collect();
    let words = [
        "hello",
        "12,34",
        "1 2 3 4 5",
        "0.1 2",
        "[a]",
        "x=1",
        "8,0",
        "R W",
        "\u{7f}\u{1}",
        "-",
        "Total (sda):",
    ];
    let (mut taken, mut refused) = (0, 0);
    for round in 0..4000 {
        let (name, text, n) = &all[random(all.len())];
        let mut lines: Vec<&str> = text.lines().collect();
        let k = random(lines.len() / 3 + 1);
        for _ in 0..k {
            let stray = match random(2) {
                0 => foreign[random(foreign.len())],
                _ => words[random(words.len())],
            };
            lines.insert(random(lines.len() + 1), stray);
        }
        match got(lines.join("\n").into()) {
            Ok((format, m, left_out)) => {
                assert_eq!(format, *name, "round {round}");
                // Lines of its own kind among the strays are read, headers and waits may change what follows.
                assert!(
                    m + left_out <= n + k as u64 + 24,
                    "round {round}: {m} read, {left_out} left out"
                );
                taken += 1;
            }
            Err(error) => {
                assert!(
                    error.contains("known format")
                        || error.contains("fits the formats")
                        || error.contains("cannot be read"),
                    "round {round}: {error}"
                );
                refused += 1;
            }
        }
    }
    assert!(taken > 2 * refused, "{taken} taken, {refused} refused");
}

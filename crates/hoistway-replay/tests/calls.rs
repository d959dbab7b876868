//! Recordings of the second form: any scheduler, calls and answers, segments.

use hoistway_replay::{Mistake, Outcome, Recorded, replay};

fn recording(scheduler: &str, lines: &str) -> String {
    format!(
        "event,ns,tick,request,ctx,sector,sectors,op,level,group,result,segments\n\
         device,,,,,,,,,,scheduler={scheduler} rotational=0 created_tick=0 tick_ns=10000000 max_sectors=1024 \
         max_segments=4 tags=64 noweights timers,\n{lines}"
    )
}

#[track_caller]
fn compared(scheduler: &str, lines: &str) -> Outcome {
    replay(&recording(scheduler, lines), &Recorded::linux_6_1()).unwrap_or_else(|e| panic!("{e}"))
}

#[track_caller]
fn differs(outcome: &Outcome, line: usize, ours: &str) {
    let first = outcome.first.as_ref().expect("something differs");
    assert_eq!((first.line, first.ours.as_str()), (line, ours));
}

const TWO_READS: &str = "\
merge,100,0,,,800,8,R,4,root,0,1
insert,110,0,0,,800,8,R,4,root,,1
merge,120,0,,,80,8,R,4,root,0,1
insert,130,0,1,,80,8,R,4,root,,1
";

#[test]
fn mq_deadline_begins_with_the_oldest() {
    let outcome = compared(
        "mq-deadline",
        &format!("{TWO_READS}dispatch,140,0,0,,,,,,,,\ndispatch,150,0,1,,,,,,,,\n"),
    );
    assert!(outcome.agrees(), "{outcome}");
    assert_eq!(
        (outcome.counts.inserted, outcome.counts.dispatches, outcome.counts.offered),
        (2, 2, 2)
    );
    let outcome = compared("mq-deadline", &format!("{TWO_READS}dispatch,140,0,1,,,,,,,,\n"));
    differs(&outcome, 7, "dispatched 0");
    assert!(outcome.first.unwrap().state.contains("Read 800 +8"));
}

#[test]
fn schedulers_of_the_module_go_by_its_names() {
    for name in ["noop", "h-deadline"] {
        let outcome = compared(name, &format!("{TWO_READS}dispatch,140,0,0,,,,,,,,\n"));
        assert!(outcome.agrees(), "{name}: {outcome}");
        differs(
            &compared(name, &format!("{TWO_READS}dispatch,140,0,1,,,,,,,,\n")),
            7,
            "dispatched 0",
        );
    }
}

#[test]
fn weights_go_to_those_that_have_some() {
    let lines = "insert,110,0,0,,800,8,R,4,a,,1\nweight,120,0,,,,,,,a,1001,\n";
    assert!(compared("noop", lines).agrees());
    let refused = replay(&recording("cfq", lines), &Recorded::linux_6_1()).unwrap_err().to_string();
    assert!(refused.starts_with("line 4: ") && refused.contains("1001"), "{refused}");
    assert!(compared("cfq", &lines.replace("1001", "1000")).agrees());
    assert!(compared("paternoster", lines).agrees(), "it takes 10000");
}

#[test]
fn ticks_and_not_nanoseconds_are_what_mq_deadline_lives_by() {
    // Batches of one; 500 ms are 50 ticks, and the tick counter lags the time.
    let begin = format!(
        "{TWO_READS}set,140,0,,,,,,,,fifo_batch=1,\ninsert,150,0,2,,8000,8,R,4,root,,1\ndispatch,160,0,0,,,,,,,,\n"
    );
    let young = compared("mq-deadline", &format!("{begin}dispatch,505000000,49,2,,,,,,,,\n"));
    assert!(young.agrees(), "{young}");
    let old = compared("mq-deadline", &format!("{begin}dispatch,505000000,50,1,,,,,,,,\n"));
    assert!(old.agrees(), "{old}");
}

#[test]
fn a_bio_joins_the_request_that_is_recorded_and_as_far_as_its_segments_go() {
    let one = "insert,110,0,0,,800,8,R,4,root,,2\ninsert,115,0,1,,8000,8,R,4,root,,1\n";
    let fits = compared("mq-deadline", &format!("{one}merge,120,0,0,,808,8,R,4,root,1,2\n"));
    assert!(fits.agrees(), "{fits}");
    let other = compared("mq-deadline", &format!("{one}merge,120,0,1,,808,8,R,4,root,1,2\n"));
    differs(&other, 5, "the bio joined request Some(0)");
    let full = compared("mq-deadline", &format!("{one}merge,120,0,0,,808,8,R,4,root,1,3\n"));
    differs(&full, 5, "bio of context  not merged");
}

#[test]
fn which_of_two_requests_at_one_sector_is_found_is_the_recordings_to_say() {
    let two = "insert,105,0,9,,8000,8,R,4,root,,1\n" // Takes the one-hit cache.
        .to_string()
        + "insert,110,0,0,,800,8,R,4,root,,1\ninsert,115,0,1,,800,8,R,4,root,,1\ninsert,116,0,2,,800,8,R,7,root,,1\n";
    for number in [0, 1] {
        let outcome =
            compared("mq-deadline", &format!("{two}merge,120,0,{number},,792,8,R,4,root,1,1\n"));
        assert!(outcome.agrees(), "{outcome}");
    }
    // The third has another level: the kernel found that one.
    let none = compared("mq-deadline", &format!("{two}merge,120,0,,,792,8,R,4,root,0,1\n"));
    assert!(none.agrees(), "{none}");
    assert_eq!(none.counts.twins, 1);
    let one = "insert,110,0,0,,800,8,R,4,root,,1\n";
    let missed = compared("mq-deadline", &format!("{one}merge,120,0,,,792,8,R,4,root,0,1\n"));
    differs(&missed, 4, "bio of context  merged");
}

#[test]
fn what_may_not_merge_does_not() {
    let lines = "insert,110,0,0,,800,8,RN,4,root,,1\nmerge,120,0,,,808,8,R,4,root,0,1\n\
                 insert,130,0,1,,808,8,R,4,root,,1\ninsert,140,0,2,,816,8,R,4,root,merged,1\n\
                 insert,150,0,3,,824,8,R,be,root,,1\n";
    let what = "'be' is not a number, or too large".to_string();
    let mistake = replay(&recording("mq-deadline", lines), &Recorded::linux_6_1()).unwrap_err();
    assert_eq!(mistake, Mistake::Line { line: 7, what });
    let outcome = compared("mq-deadline", &lines[..lines.rfind("insert").unwrap()]);
    assert!(outcome.agrees(), "{outcome}");
}

#[test]
fn a_request_that_is_given_back_is_inserted_at_the_head() {
    let lines = format!(
        "{TWO_READS}dispatch,140,0,0,,,,,,,,\nrequeue,150,0,0,,,,,,,,\ninsert,160,0,0,,800,8,R,4,root,head,1\n\
         dispatch,170,0,0,,,,,,,,\ncomplete,180,0,0,,,,,,,,\ndispatch,190,0,1,,,,,,,,\ncomplete,200,0,1,,,,,,,,\n"
    );
    let outcome = compared("mq-deadline", &lines);
    assert!(outcome.agrees(), "{outcome}");
}

#[test]
fn limits_of_tags_are_compared() {
    let limits = |async_writes| {
        compared(
            "kyber",
            &format!("limit,100,0,,,0,0,R,,root,0,\nlimit,100,0,,,0,0,A,,root,{async_writes},\n"),
        )
    };
    // 64 tags are words of 16.
    assert!(limits(12).agrees());
    differs(&limits(11), 4, "12 places of a word of 16 tags (0: all)");
    assert_eq!(limits(12).counts.limits, 2);
}

/// Three quarters of the tags for what is not synchronous: since 6.12 of all of them (a recorded line), before of a word.
#[test]
fn since_6_12_a_limit_of_tags_is_one_for_all() {
    let limit = |release: &str, depth: u32| {
        let text = recording("kyber", &format!("limit,771322672,77,,,0,0,A,,root,{depth},0\n"));
        let text = text.replace("tags=64", &format!("release={release} tags=62"));
        let mut settings = Recorded::linux_6_1();
        settings.set_release(release);
        replay(&text, &settings).unwrap()
    };
    assert!(limit("6.12", 46).agrees());
    differs(&limit("6.12", 6), 3, "46 places of a word of 62 tags (0: all)");
    assert!(limit("6.1", 6).agrees());
    differs(&limit("6.1", 46), 3, "6 places of a word of 8 tags (0: all)");
}

/// So many writes that took too long, all of them out at once.
fn late_writes(n: u32) -> String {
    let mut lines = String::new();
    for i in 0..n {
        let sector = 100 * i;
        lines += &format!("insert,100,0,{i},,{sector},8,W,4,root,,1\ndispatch,100,0,{i},,,,,,,,\n");
    }
    for i in 0..n {
        lines += &format!("complete,90000000,9,{i},,,,,,,start=100 issue=100 end=90000000,\n");
    }
    lines
}

#[test]
fn kyber_adapts_when_its_timer_is_recorded() {
    let late = late_writes(100);
    let adapted = compared("kyber", &format!("{late}timer,200000001,20,,,,,,,,,\n"));
    assert!(adapted.agrees(), "{adapted}");
    assert_eq!(adapted.counts.timers, 1);
    let early = compared("kyber", &format!("{late}timer,150000000,15,,,,,,,,,\n"));
    assert!(early.first.unwrap().ours.starts_with("the timer is not due"));
    let never = compared("kyber", &format!("{late}insert,300000000,30,9,,0,8,R,4,root,,1\n"));
    assert!(never.first.unwrap().ours.starts_with("a timer fired at"));
}

/// Steps of flush sequences pass kyber by and are samples all the same.
#[test]
fn writes_that_kyber_never_had_arm_its_timer() {
    let flush = |op: &str| {
        let sample = format!("sample,1000,0,,,,,{op},,,start=10 issue=20 end=1000,\n");
        compared("kyber", &format!("{sample}timer,110000001,11,,,,,,,,,\n"))
    };
    let (write, command) = (flush("W"), flush("F"));
    assert!(write.agrees(), "{write}");
    differs(&command, 4, "the timer is not due: None");
    let half = recording("kyber", "sample,1000,0,,,,,W,,,start=10 end=1000,\n");
    let mistake = replay(&half, &Recorded::linux_6_1()).unwrap_err().to_string();
    assert_eq!(mistake, "line 3: 'start=10 end=1000' has no issue=");
}

#[test]
fn a_recording_says_whose_rules_it_was_made_with() {
    let old = recording("mq-deadline", "");
    assert_eq!(hoistway_replay::release(&old), None);
    let new = old.replace("rotational", "release=6.12 rotational");
    assert_eq!(hoistway_replay::release(&new).as_deref(), Some("6.12"));
    let mut settings = Recorded::linux_6_1();
    for (release, base, mq_deadline, kyber) in [
        ("5.4.200", "6.1", 0, 0),
        ("6.1.192", "6.1", 0, 0),
        ("7.3.4", "7.3", 2, 1),
        ("6.2.0-rc1", "6.2+", 0, 0),
        ("6.5.3", "6.2+", 2, 0),
        ("6.12", "6.12", 2, 0),
        ("7.0.0", "6.12", 2, 0),
    ] {
        settings.set_release(release);
        let found = (settings.base(), settings.mq_deadline_base, settings.kyber_base);
        assert_eq!(found, (base, mq_deadline, kyber), "{release}");
    }
    settings.set_base("hoistway").unwrap();
    assert_eq!((settings.base(), settings.mq_deadline_base), ("hoistway", 1));
}

/// A sweep is at 800 and 1200 waits; 400 and 900 come, and 800 once more.
#[test]
fn since_6_5_a_sweep_of_mq_deadline_goes_on_from_a_sector() {
    let begin = "insert,100,0,0,,800,8,R,4,root,,1\ninsert,100,0,1,,1200,8,R,4,root,,1\n\
                 dispatch,140,0,0,,,,,,,,\ninsert,150,0,2,,400,8,R,4,root,,1\n\
                 insert,150,0,3,,900,8,R,4,root,,1\ninsert,150,0,4,,800,8,R,7,root,,1\n";
    let order = |numbers: &[u32]| {
        let dispatches = numbers.iter().map(|n| format!("dispatch,160,0,{n},,,,,,,,\n"));
        recording("mq-deadline", &format!("{begin}{}", dispatches.collect::<String>()))
    };
    for (release, numbers) in [("6.1", [1, 2, 4, 3]), ("6.12", [4, 3, 1, 2])] {
        let mut settings = Recorded::linux_6_1();
        settings.set_release(release);
        let outcome = replay(&order(&numbers), &settings).unwrap();
        assert!(outcome.agrees(), "{release}: {outcome}");
    }
}

#[test]
fn what_is_no_such_recording_is_named() {
    let wrong = |text: &str| replay(text, &Recorded::linux_6_1()).unwrap_err().to_string();
    assert_eq!(
        wrong(&recording("deadline", "")),
        "no decisions of 'deadline' can be compared; there are bfq, mq-deadline, kyber, and of hoistway's module noop, \
         h-deadline, zoccolo, h-mq-deadline, cfq, cfq-2.6.30, cfq-2.6.32, cfq-2.6.38, h-bfq, bfq-v1, bfq-v4, sio, \
         sio-1, h-kyber, adios, k2, paternoster"
    );
    let whole = recording("kyber", "");
    let head = whole.lines().next().unwrap();
    assert_eq!(wrong(&format!("{head}\n")), "line 2: the second line must be the device's");
    let insert = |tail: &str| recording("kyber", &format!("insert,9,0,0,0,{tail}\n"));
    let long = wrong(&insert("0,8,R,,root,,65536"));
    assert_eq!(long, "line 3: 65536 segments; a request has 65535 at most");
    assert!(wrong(&insert("72057594037927935,8,R,,root,,1")).ends_with("is on no drive"));
    let odd = whole.replace("tags=64", "tags=many");
    assert_eq!(wrong(&odd), "line 2: 'many' is not a number, or too large");
}

/// Recordings of Linux that `hoistway differ` found something with (`data/calls`, whose README says what).
#[test]
fn what_differ_found_agrees_now() {
    let folder = format!("{}/tests/data/calls", env!("CARGO_MANIFEST_DIR"));
    let mut counts = hoistway_replay::Counts::default();
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "gz") {
            continue;
        }
        let mut text = String::new();
        let file = std::fs::File::open(&path).unwrap();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).unwrap();
        let mut settings = Recorded::linux_6_1();
        hoistway_replay::release(&text).iter().for_each(|r| settings.set_release(r));
        let outcome =
            replay(&text, &settings).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(outcome.agrees(), "{}: {outcome}", path.display());
        counts.limits += outcome.counts.limits;
        counts.dispatches += outcome.counts.dispatches;
        files += 1;
    }
    assert!(files >= 13 && counts.limits > 100 && counts.dispatches > 1000, "{files} {counts:?}");
}

#[test]
fn what_the_kernel_did_not_take_is_told_and_not_set() {
    let line = |setting: &str| format!("left-out,9,0,,,,,,,,{setting},\n");
    let outcome = compared("bfq", &[line("low_latency=0"), line("low_latency=1")].concat());
    assert!(outcome.agrees());
    assert_eq!(outcome.left_out.into_iter().collect::<Vec<_>>(), [("low_latency".to_string(), 2)]);
}

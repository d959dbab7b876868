//! What recordings of ours inside the kernel tell beside the operations of an elevator.

use hoistway_replay::{Mistake, Outcome, Recorded, replay};

fn run(scheduler: &str, lines: &[&str]) -> Result<Outcome, Mistake> {
    let mut text = format!(
        "event,ns,tick,request,ctx,sector,sectors,op,level,group,result,segments\n\
         device,,,,,,,,,,scheduler={scheduler} release=6.1 rotational=0 created_tick=0 created_ns=0 tick_ns=4000000 \
         max_sectors=2560 max_segments=128 tags=256 depth=32 noweights timers inside,\n"
    );
    lines.iter().for_each(|line| text += &format!("{line}\n"));
    replay(&text, &Recorded::linux_6_1())
}

/// The recorded order is that of ours.
fn agrees(scheduler: &str, lines: &[&str]) -> bool {
    run(scheduler, lines).unwrap().agrees()
}

/// ADIOS learns the drive's times of both kinds; after them it has orders.
const LEARNS: [&str; 8] = [
    "insert,1000,0,1,,0,8,R,,root,,1",
    "insert,1001,0,2,,64,8,W,,root,,1",
    "dispatch,1002,0,1,,,,,,,,",
    "dispatch,1003,0,2,,,,,,,,",
    "complete,200000,0,1,,,,,,,end=200000,",
    "complete,300000,0,2,,,,,,,end=300000,",
    "insert,300001,0,3,,128,8,R,,root,,1",
    "dispatch,300002,0,3,,,,,,,,",
];

#[test]
fn a_request_is_as_old_as_its_tag() {
    let agrees = |op: &str, beginning: &str, order: [u32; 2]| {
        let lines = [
            "insert,100000000,25,4,,0,8,R,,root,,1".to_string(),
            format!("insert,100000001,25,5,,1000000,8,{op},,root,{beginning},1"),
            format!("dispatch,100000002,25,{},,,,,,,,", order[0]),
            format!("dispatch,100000003,25,{},,,,,,,,", order[1]),
        ];
        let lines: Vec<&str> = LEARNS.into_iter().chain(lines.iter().map(String::as_str)).collect();
        agrees("adios", &lines)
    };
    let earlier = " start=50000000 alloc=50000000";
    assert!(agrees("R", "", [4, 5]) && !agrees("R", "", [5, 4]));
    assert!(agrees("R", earlier, [5, 4]) && !agrees("R", earlier, [4, 5]));
    // With the flag SYNC it has no target to wait for.
    assert!(agrees("RS", "", [5, 4]) && !agrees("RS", "", [4, 5]));
}

const ASKS: [&str; 2] =
    ["insert,2000,0,1,0,0,8,R,|4,root,,1", "insert,2001,0,2,1,1000000,8,R,|4,root,,1"];

#[test]
fn a_process_is_what_was_told_of_it_last() {
    let agrees = |level: &str, order: [u32; 2]| {
        let told = format!("proc,1001,0,,1,0,0,R,{level},root,,0");
        let order = order.map(|n| format!("dispatch,3000,0,{n},,,,,,,,"));
        // K2 asks the process where the request has no priority.
        let asks = ASKS.map(|line| line.replace("|4", ""));
        let lines =
            ["proc,1000,0,,0,0,0,R,4,root,,0", &told, &asks[0], &asks[1], &order[0], &order[1]];
        agrees("k2", &lines)
    };
    assert!(agrees("4", [1, 2]) && !agrees("4", [2, 1]));
    assert!(agrees("rt0", [2, 1]) && !agrees("rt0", [1, 2]));
}

#[test]
fn a_process_that_no_line_has_told_of_is_an_error() {
    let mistake = run("k2", &ASKS[..1]).unwrap_err();
    assert!(mistake.to_string().contains("no line has told of process 0"), "{mistake}");
}

#[test]
fn flush_commands_reach_who_hears_them() {
    let lines =
        ["flush,1000,0,,,,,,,,began,", "flush,2000,0,,,,,,,,ended,", "dispatch,3000,0,7,,,,,,,,"];
    let flushes = |lines: &[&str]| {
        let outcome = run("paternoster", lines).unwrap();
        let state = outcome.first.expect("there is no request 7").state;
        state.lines().find(|line| line.starts_with("flushes")).unwrap().to_string()
    };
    assert_eq!(flushes(&lines), "flushes = 1");
    assert_eq!(flushes(&lines[2..]), "flushes = 0");
    let mistake = run("paternoster", &["flush,1000,0,,,,,,,,stuck,"]).unwrap_err();
    assert!(mistake.to_string().contains("a flush command has not 'stuck'"), "{mistake}");
}

#[test]
fn a_group_that_is_gone_is_the_one_above_it() {
    let lines = |group: &str| {
        [
            format!("proc,1000,0,,0,0,0,R,4,{group},,0"),
            format!("insert,2000,0,1,0,0,8,R,4,{group},,1"),
            "dispatch,3000,0,7,,,,,,,,".to_string(),
        ]
    };
    let groups = |group: &str| {
        let lines = lines(group);
        let lines = lines.each_ref().map(String::as_str);
        let outcome = run("h-bfq", &lines).unwrap();
        outcome.first.expect("there is no request 7").state
    };
    assert_eq!(groups("a~12"), groups("root"));
    assert_eq!(groups("a/b~12/c~13"), groups("a"));
    assert_ne!(groups("a"), groups("root"));
}

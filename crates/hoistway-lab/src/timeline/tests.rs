use super::*;
use hoistway::QueueId;
use serde_json::Value;

fn at(us: u64) -> Instant {
    Instant::from_nanos(us * 1_000)
}

fn record(us: u64, event: Event) -> Record {
    Record { at: at(us), event }
}

fn inserted(us: u64, req: u32, proc: u32) -> Record {
    let (start, sectors) = (Sectors(u64::from(req) * 100), Sectors(8));
    record(us, Event::Inserted { req, proc: ProcId(proc), start, sectors })
}

fn issued(us: u64, req: u32, proc: u32) -> Record {
    let (start, sectors) = (Sectors(u64::from(req) * 100), Sectors(8));
    let (queue, proc, op) = (QueueId(0), ProcId(proc), Op::Read);
    record(us, Event::Issued { req, queue, proc, op, start, sectors })
}

fn why(us: u64, what: &'static str, of: u32, a: i64, b: i64) -> Record {
    record(us, Event::Why(Why { what, of, a, b }))
}

fn told(records: &[Record]) -> Vec<Value> {
    let about = About {
        command: "hoistway run 'a \"b\"'",
        names: BTreeMap::from([(0, "target".into()), (1, "reader\"0".into())]),
        scheduler: hoistway::sched::find("bfq").unwrap(),
        window: (at(10), at(90)),
    };
    let mut out = Vec::new();
    write(records, &about, &mut out).unwrap();
    let all: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(all["otherData"]["command"], about.command);
    all["traceEvents"].as_array().unwrap().clone()
}

fn slices(events: &[Value]) -> Vec<&Value> {
    events.iter().filter(|e| e["ph"] == "X").collect()
}

#[test]
fn a_request_waits_and_is_served_with_the_reason() {
    let events = told(&[
        inserted(1, 7, 0),
        why(3, "a reason that is about no queue", 0, 0, 0),
        issued(3, 7, 0),
        record(8, Event::Done { req: 7 }),
    ]);
    let slices = slices(&events);
    let [waits, served] = slices[..] else { panic!("{slices:#?}") };
    assert_eq!((waits["pid"].as_u64(), served["pid"].as_u64()), (Some(1), Some(2)));
    assert_eq!((waits["ts"].as_f64(), waits["dur"].as_f64()), (Some(1.0), Some(2.0)));
    assert_eq!((served["ts"].as_f64(), served["dur"].as_f64()), (Some(3.0), Some(5.0)));
    assert_eq!(served["name"], "read 4 KiB");
    assert_eq!(served["args"]["process"], "target");
    assert_eq!(served["args"]["reason"], "a reason that is about no queue");
}

#[test]
fn slices_of_one_track_never_overlap() {
    let mut records = Vec::new();
    for req in 0..40 {
        records.push(inserted(u64::from(req), req, req % 2));
        if req >= 5 {
            records.push(issued(u64::from(req), req - 5, (req - 5) % 2));
        }
        if req >= 20 {
            records.push(record(u64::from(req), Event::Done { req: req - 20 }));
        }
    }
    let events = told(&records);
    let mut tracks: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    for slice in slices(&events) {
        let track = (slice["pid"].as_u64().unwrap(), slice["tid"].as_u64().unwrap());
        let (ts, dur) = (slice["ts"].as_f64().unwrap(), slice["dur"].as_f64().unwrap());
        tracks.entry(track).or_default().push((ts, ts + dur));
    }
    assert!(tracks.len() > 10, "{} tracks", tracks.len());
    for (track, mut slices) in tracks {
        slices.sort_by(|a, b| a.partial_cmp(b).unwrap());
        assert!(slices.windows(2).all(|w| w[0].1 <= w[1].0), "{track:?}: {slices:?}");
    }
    let all = slices(&events).len();
    assert_eq!(all, 40 + 35, "each request waits once, and those that were issued are served once");
    let open = slices(&events).iter().filter(|s| s["args"]["not finished"] == true).count();
    assert_eq!(open, 5 + 15);
}

#[test]
fn merged_requests_and_slots_of_service_are_told() {
    let events = told(&[
        inserted(1, 1, 0),
        inserted(2, 2, 0),
        record(3, Event::Joined { kept: 1, gone: 2 }),
        why(4, "in service", 9, 512, 0),
        why(6, "expired: budget exhausted", 9, 100, 0),
    ]);
    let slices = slices(&events);
    let merged = slices.iter().find(|s| s["args"]["merged into"] == 1).unwrap();
    assert_eq!((merged["ts"].as_f64(), merged["dur"].as_f64()), (Some(2.0), Some(1.0)));
    let slot = slices.iter().find(|s| s["name"] == "queue 9").unwrap();
    assert_eq!((slot["ts"].as_f64(), slot["dur"].as_f64()), (Some(4.0), Some(2.0)));
    assert_eq!(slot["args"]["ended by"], "expired: budget exhausted");
}

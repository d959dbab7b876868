//! What is counted and told of a core while it serves.

use super::super::WRITE;
use super::super::core::{Core, IoRequest, ReplyTo, TenantId};
use super::super::report::ConnectionInfo;
use super::super::settings::GroupSpec;
use super::super::stats::device_stats;
use super::super::tracing::{subscribe, take_batch};
use super::core;
use crate::system::Buffer;
use hoistway::sched::QueueUse;
use hoistway::trace::{Event, Record};
use hoistway::{Flags, GroupId, IoPrio, Op, ProcId};
use rustix::io::Errno;
use std::collections::BTreeMap;

/// A client of a group.
fn client(core: &mut Core, group: GroupId, connection: u64) -> TenantId {
    let tenant = core.add_tenant(group, IoPrio::NONE);
    let (export, peer) = ("disk".to_string(), "a test".to_string());
    core.identify(tenant, ConnectionInfo { connection, export, peer });
    tenant
}

/// Has all of them done: operation, first byte, bytes.
fn serve(core: &mut Core, requests: &[(TenantId, Op, u64, u64)]) {
    core.read_clock();
    for (tenant, op, offset, len) in requests.iter().copied() {
        let data = matches!(op, Op::Read | Op::Write);
        let buffer = Buffer::zeroed(if data { len as usize } else { 0 });
        let flags = if op == Op::Read { Flags::NONE } else { WRITE };
        let reply_to = ReplyTo::Session { session: 0, cookie: 0 };
        core.submit(tenant, IoRequest { op, offset, len, flags, buffer, reply_to });
    }
    let mut over = 0;
    // Idling and timers need the clock to move.
    for _ in 0..2_000_000 {
        core.read_clock();
        core.turn();
        while core.next_finished().is_some() {
            over += 1;
        }
        if over == requests.len() {
            return;
        }
    }
    panic!("{over} of {} I/Os are over", requests.len());
}

#[test]
fn sums_keep_what_clients_had_done_that_left() {
    let (mut core, _) = core("bfq", 8 << 20..(8 << 20) + 512, Errno::IO);
    let (gold, _) = core.set_group(&GroupSpec::new("gold").weight(300)).unwrap();
    let (first, second) = (client(&mut core, gold, 1), client(&mut core, gold, 2));
    let other = client(&mut core, GroupId::ROOT, 3);
    serve(
        &mut core,
        &[
            (first, Op::Read, 0, 4096),
            (first, Op::Write, 4096, 8192),
            (second, Op::Read, 1 << 20, 4096),
            // Fails in the backend, and before it reaches the stack.
            (second, Op::Read, 8 << 20, 4096),
            (second, Op::Write, 1 << 40, 4096),
            (other, Op::Read, 2 << 20, 512),
        ],
    );
    let before = device_stats(&mut core);
    let of = |stats: &super::super::DeviceStats, group: &str| {
        let sum = stats.sums.iter().find(|s| s.group == group).unwrap();
        assert_eq!(sum.export, "disk");
        (sum.clients, sum.counters.clone())
    };
    let (clients, measure) = of(&before, "gold");
    assert_eq!((clients, measure.outstanding), (2, 0));
    let (reads, writes) = (&measure.ops[Op::Read as usize], &measure.ops[Op::Write as usize]);
    assert_eq!((reads.count, reads.errors, reads.bytes), (3, 1, 8192));
    assert_eq!((writes.count, writes.errors, writes.bytes), (2, 1, 8192));
    // What never reached the device has not waited for it.
    assert_eq!(measure.waits.slots().map(|(_, n)| n).sum::<u64>(), 4);
    assert_eq!(of(&before, "root").1.ops[0].bytes, 512);
    assert_eq!((before.weights[0], before.client_stats[0].weight), (Some(300), Some(40)));
    let tallies: Vec<_> =
        before.report.clients.iter().map(|c| (c.done.reads, c.done.errors)).collect();
    assert_eq!(tallies, [(1, 0), (1, 2), (1, 0)]);

    core.close_tenant(first);
    core.close_tenant(second);
    let after = device_stats(&mut core);
    let (clients, kept) = of(&after, "gold");
    assert_eq!((clients, &kept.ops, &kept.waits), (0, &measure.ops, &measure.waits));
    // A further client adds to them.
    let third = client(&mut core, gold, 4);
    serve(&mut core, &[(third, Op::Read, 0, 4096)]);
    let (clients, more) = of(&device_stats(&mut core), "gold");
    assert_eq!((clients, more.ops[0].count, more.ops[0].bytes), (1, 4, 12288));
}

/// What a trace that was on from the start says of the queues processes use.
fn told(records: &[Record], bfq: bool) -> BTreeMap<(u32, bool), u32> {
    let mut queues = BTreeMap::new();
    for record in records {
        let Event::Why(why) = record.event else { continue };
        match why.what.split(':').next() {
            Some("queue of process") => queues.insert((why.a as u32, why.b != 0), why.of),
            Some("queues merged") if bfq => queues.insert((why.b as u32, true), why.a as u32),
            Some("split off a shared queue") => queues.insert((why.b as u32, true), why.of),
            _ => None,
        };
    }
    queues
}

#[test]
fn who_listens_late_knows_the_queues_as_if_from_the_start() {
    for scheduler in ["bfq", "bfq-v1", "cfq", "cfq-2.6.30"] {
        let (mut core, _) = core(scheduler, 0..0, Errno::IO);
        let (begin, queues) = subscribe(&mut core).unwrap();
        assert_eq!((begin, queues), (core.now(), vec![]));
        assert!(subscribe(&mut core).is_err(), "one at a time");
        let clients: Vec<_> = (0..3).map(|n| client(&mut core, GroupId::ROOT, n)).collect();
        let reads: Vec<_> = (0..24)
            .map(|n| (clients[n % 3], Op::Read, (n as u64 % 3) << 27 | (n as u64) << 16, 4096))
            .collect();
        serve(&mut core, &reads);
        let heard = take_batch(&mut core);
        assert_eq!((heard.dropped, heard.scheduler.name, heard.clients.len()), (0, scheduler, 3));
        let mut known = BTreeMap::new();
        core.stack.scheduler().queues(&mut |QueueUse {
                                                proc: ProcId(proc), sync, queue, ..
                                            }| {
            known.insert((proc, sync), queue);
        });
        assert_eq!(known, told(&heard.records, scheduler == "bfq"), "{scheduler}");
        assert_eq!(known.len(), 3, "{scheduler}: each has a queue");
    }
}

#[test]
fn what_does_not_fit_between_two_looks_is_counted() {
    let (mut core, _) = core("none", 0..0, Errno::IO);
    let tenant = client(&mut core, GroupId::ROOT, 1);
    subscribe(&mut core).unwrap();
    let reads = [(tenant, Op::Read, 0, 4096)];
    for _ in 0..1 << 16 {
        serve(&mut core, &reads);
    }
    let heard = take_batch(&mut core);
    assert_eq!(heard.records.len(), 1 << 16);
    assert!(heard.dropped > 1 << 16, "each I/O is several steps: {}", heard.dropped);
    serve(&mut core, &reads);
    assert!(!take_batch(&mut core).records.is_empty(), "after a look there is room again");
}

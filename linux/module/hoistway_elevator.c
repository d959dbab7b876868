// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The operations of an elevator, each handed to the core under one lock per queue. This file knows no scheduler: it keeps the
 * kernel's merge hash, one timer, and the requests in the order of arrival for the case that the core fails.
 */
#include <linux/blk-cgroup.h>
#include <linux/cgroup.h>
#include <linux/iocontext.h>
#include <linux/ioprio.h>
#include <linux/module.h>
#include <linux/slab.h>
#include "hoistway_request.h"
#include "blk-mq.h"
#include "blk-mq-sched.h"

/* block/blk.h */
struct io_cq *ioc_find_get_icq(struct request_queue *q);
struct io_cq *ioc_lookup_icq(struct request_queue *q);

struct hw_icq {
	struct io_cq icq;	/* must be first */
	u32 proc;		/* 0: none yet */
	u32 prio;
	const void *group;
	const void *last;	/* group_key of its last bio */
};

const size_t hw_icq_size = sizeof(struct hw_icq), hw_icq_align = __alignof__(struct hw_icq);

static struct hw_sched *sched_of(struct request_queue *q)
{
	return q->elevator->elevator_data;
}

/*
 * The running process, if it has I/O here and the scheduler wants to know. `news`: its last I/O was of another group than the
 * bio, which is noted.
 */
static u32 current_proc(struct hw_sched *h, struct bio *bio, bool *news)
{
	struct hw_icq *icq;
	unsigned long flags;
	u32 proc = 0;

	if (!(h->wants & HW_PROCS) || !current->io_context)
		return 0;
	spin_lock_irqsave(&h->queue->queue_lock, flags);
	icq = (struct hw_icq *)ioc_lookup_icq(h->queue);
	if (icq) {
		proc = icq->proc;
		if (bio && READ_ONCE(icq->last) != group_key(bio)) {
			WRITE_ONCE(icq->last, group_key(bio));
			*news = true;
		}
	}
	spin_unlock_irqrestore(&h->queue->queue_lock, flags);
	return proc;
}

/* The core has failed: nothing of it stays in force. */
static u64 bury(struct hw_sched *h)
{
	if (h->buried)
		return 0;
	h->buried = true;
	hrtimer_try_to_cancel(&h->timer);
	hw_cut_to(h, h->max_sectors);
	return U64_MAX;
}

u64 hw_after_news(struct hw_sched *h)
{
	struct hw_view *view = &h->view;
	u64 runs = view->runs;

	if (unlikely(h->dead))
		return bury(h);
	if (view->next_timer != h->armed) {
		h->armed = view->next_timer;
		if (h->armed == U64_MAX)
			hrtimer_try_to_cancel(&h->timer);
		else
			hrtimer_start(&h->timer, ns_to_ktime(h->armed), HRTIMER_MODE_ABS);
	}
	if (view->max_sectors != h->cut)
		hw_cut_to(h, view->max_sectors);
	if (runs)
		view->runs = 0;
	return runs;
}

void hw_run_these(struct hw_sched *h, u64 runs)
{
	struct blk_mq_hw_ctx *hctx;
	unsigned long i;

	queue_for_each_hw_ctx(h->queue, hctx, i)
		if (runs & BIT_ULL(i & 63))
			blk_mq_run_hw_queue(hctx, true);
}

/*
 * list_add_tail and list_del_init for what comes and for what waits, without the calls by which a kernel may check lists: for each
 * request three times twenty instructions. Only hw_has_work looks without the lock, at the head.
 */
static void link_last(struct list_head *node, struct list_head *list)
{
	struct list_head *last = list->prev;

	node->prev = last;
	node->next = list;
	WRITE_ONCE(last->next, node);
	list->prev = node;
}

static void unlink(struct list_head *node)
{
	WRITE_ONCE(node->prev->next, node->next);
	node->next->prev = node->prev;
	INIT_LIST_HEAD(node);
}

static void forget_merging(struct request_queue *q, struct request *rq)
{
	if (!hlist_unhashed(&rq->hash))
		elv_rqhash_del(q, rq);
	if (q->last_merge == rq)
		q->last_merge = NULL;
	if (is_ours(rq))
		put(rq, OPEN, false);
}

/* As rq_mergeable of block/blk.h. */
static bool may_be_joined(struct request *rq)
{
	enum req_op op = req_op(rq);

	return !blk_rq_is_passthrough(rq) && op != REQ_OP_FLUSH && op != REQ_OP_WRITE_ZEROES &&
	       op != REQ_OP_ZONE_APPEND && !(rq->cmd_flags & REQ_NOMERGE_FLAGS) && !(rq->rq_flags & RQF_NOMERGE_FLAGS);
}

/* --- a request's beginning ----------------------------------------------------------------------- */

static noinline void limit_depth(struct hw_sched *h, blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	unsigned long flags;
	const void *key;
	struct hw_io io;
	u32 depth;
	u64 now;

	io = (struct hw_io) {
		.flags = flags_of(opf),
		.op = op_of(opf),
		.sync = op_is_sync(opf),
		.cpu = raw_smp_processor_id(),
		.prio = get_current_ioprio(),
	};
	io.proc = current_proc(h, NULL, NULL);
	rcu_read_lock();
	flags = hw_lock(h);
	now = ktime_get_ns();
	io.group = hw_group_of_current(h, &key, now);
	depth = CORE(h, hw_depth(&h->view, now, &io));
	hw_unlock(h, flags);
	rcu_read_unlock();
	if (depth)
		data->shallow_depth = depth;
}

/* The question that need not be asked costs no frame; so below. 6.12 asks about writes with FUA too, 6.1 does not. */
static void hw_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct hw_sched *h = sched_of(data->q);

	if (!(h->traits & HW_LIMITS_DEPTH))
		return;
	if ((opf & REQ_OP_MASK) == REQ_OP_READ && !READ_ONCE(h->view.limits_reads))
		return;
	limit_depth(h, opf, data);
}

static noinline void meet(struct hw_sched *h, struct hw_icq *icq, u32 prio)
{
	unsigned long flags = hw_lock(h);
	u64 now = ktime_get_ns(), runs;
	const void *key;
	u32 group;

	if (!icq->proc)
		icq->proc = CORE(h, hw_proc(&h->view, prio));
	group = hw_group_of_current(h, &key, now);
	if (icq->proc)
		CORE(h, hw_proc_is(&h->view, now, icq->proc, prio, group));
	icq->prio = prio;
	icq->group = key;
	runs = hw_after(h);
	hw_unlock(h, flags);
	hw_run(h, runs);
}

static noinline void prepare_for_proc(struct hw_sched *h, struct request *rq)
{
	struct hw_icq *icq = (struct hw_icq *)ioc_find_get_icq(rq->q);
	u32 prio;

	if (!icq)
		return;
	rq->elv.icq = &icq->icq;
	prio = get_current_ioprio();
	rcu_read_lock();
#ifdef CONFIG_BLK_CGROUP
	if (!READ_ONCE(icq->proc) || icq->prio != prio || icq->group != task_css(current, io_cgrp_id))
		meet(h, icq, prio);
#else
	if (!READ_ONCE(icq->proc) || icq->prio != prio)
		meet(h, icq, prio);
#endif
	rcu_read_unlock();
	rq->elv.priv[1] = (void *)(unsigned long)icq->proc;
}

static void hw_prepare_request(struct request *rq)
{
	struct hw_sched *h = sched_of(rq->q);

	rq->elv.icq = NULL;
	set_handle(rq, 0);
	rq->elv.priv[1] = NULL;
	if (h->wants & HW_PROCS)
		prepare_for_proc(h, rq);
}

static void hw_exit_icq(struct io_cq *at)
{
	struct hw_icq *icq = (struct hw_icq *)at;
	struct hw_sched *h;
	unsigned long flags;

	if (!icq->proc)
		return;
	h = sched_of(at->q);
	flags = hw_lock(h);
	CORE(h, hw_proc_exits(&h->view, ktime_get_ns(), icq->proc));
	icq->proc = 0;
	hw_after(h);
	hw_unlock(h, flags);
}

static void hw_finish_request(struct request *rq)
{
	struct hw_sched *h = sched_of(rq->q);
	unsigned long flags;

	if (!is_ours(rq) || !handle(rq))
		return;
	flags = hw_lock(h);
	CORE(h, hw_forget(&h->view, handle(rq)));
	set_handle(rq, 0);
	hw_unlock(h, flags);
}

static void spill(struct hw_sched *h, struct request *rq, bool head)
{
	h->spilled++;
	if (head)
		list_add(&rq->queuelist, &h->spill);
	else
		list_add_tail(&rq->queuelist, &h->spill);
}

/* The scheduler has it; bios may join it where it is open. */
static void waits(struct hw_sched *h, struct request *rq, u32 open)
{
	struct request_queue *q = h->queue;

	link_last(&rq->queuelist, &h->waiting);
	if (open == HW_CLOSED || !may_be_joined(rq)) {
		put(rq, WAITS, true);
		return;
	}
	put(rq, WAITS | OPEN, true);
	elv_rqhash_add(q, rq);
	if (!q->last_merge)
		q->last_merge = rq;
}

/* Another request absorbs it, and it joins `free`. Of ranges the kernel would not tell us, though one of the two may wait here. */
static bool absorbed(struct hw_sched *h, struct request *rq, struct list_head *free)
{
	return !has_ranges(rq) && blk_mq_sched_try_insert_merge(h->queue, rq, free);
}

/* A request with a handle is inserted, if no other absorbs it. */
static void insert_known(struct hw_sched *h, struct request *rq, bool head, u32 open, u64 now, struct list_head *free)
{
	if (open == HW_OPEN && absorbed(h, rq, free))
		return;
	CORE(h, hw_insert(&h->view, now, handle(rq), head));
	waits(h, rq, open);
}

/* The core hears of it; false: it has no room, or has failed. */
static bool introduce(struct hw_sched *h, struct request *rq, u32 how, u64 now, u32 *open)
{
	struct hw_io io HW_UNCLEARED;

	io_of_request(rq, &io, now);
	io.proc = proc_of(rq);
	io.group = rq->bio ? hw_group_of_bio(h, rq->bio, now) : 0;
	if (rq->bio && rq->elv.icq)
		WRITE_ONCE(container_of(rq->elv.icq, struct hw_icq, icq)->last, group_key(rq->bio));
	set_handle(rq, CORE(h, hw_arrive(&h->view, now, &io, how, rq, open)));
	return handle(rq);
}

static void insert(struct hw_sched *h, struct request *rq, bool head, u64 now, struct list_head *free)
{
	u32 open = HW_CLOSED, how = head ? HW_HEAD : 0;

	if (!is_ours(rq) || blk_rq_is_passthrough(rq))
		return spill(h, rq, head);
	if (handle(rq)) {
		/* The only one that we know and do not have. */
		WARN_ON_ONCE(!has(rq, GIVEN_BACK));
		put(rq, GIVEN_BACK, false);
		put(rq, WAITS, true);
		list_add(&rq->queuelist, &h->waiting);
		CORE(h, hw_requeue(&h->view, now, handle(rq)));
		return;
	}
	if (h->wants & HW_OPENS_ALL && !head && h->view.waiting && !h->dead) {
		/* Where it joins another, hw_requests_merged tells the core of both. */
		if (absorbed(h, rq, free))
			return;
		how = HW_ALONE;
	}
	if (!introduce(h, rq, how, now, &open))
		return spill(h, rq, head);
	if (open & HW_INSERTED)
		return waits(h, rq, open & ~HW_INSERTED);
	insert_known(h, rq, head, open, now, free);
}

static void hw_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, hw_insert_t how)
{
	struct hw_sched *h = sched_of(hctx->queue);
	unsigned long flags;
	LIST_HEAD(free);
	u64 now, runs;

	flags = hw_lock(h);
	now = h->now = ktime_get_ns();
	while (!list_empty(list)) {
		struct request *rq = list_first_entry(list, struct request, queuelist);

		unlink(&rq->queuelist);
		insert(h, rq, HW_AT_HEAD(how), now, &free);
	}
	runs = hw_after(h);
	hw_unlock(h, flags);
	blk_mq_free_requests(&free);
	hw_run(h, runs);
}

/* --- its way to the device and back --------------------------------------------------------------- */

/* It is not ours any more. */
static void leaves(struct hw_sched *h, struct request *rq)
{
	unlink(&rq->queuelist);
	forget_merging(h->queue, rq);
	put(rq, WAITS, false);
}

static void close_to_merging(struct hw_sched *h)
{
	struct request *rq;

	while ((rq = CORE(h, hw_closed(&h->view))))
		forget_merging(h->queue, rq);
}

static struct request *ask(struct hw_sched *h, u16 queue, u64 now, struct list_head *free)
{
	struct request *rq;

	for (;;) {
		struct hw_found found = {};

		rq = CORE(h, hw_dispatch(&h->view, now, queue, &found));
		if (!rq && h->dead)
			return NULL;
		if (found.closed)
			close_to_merging(h);
		if (!rq)
			return NULL;
		leaves(h, rq);
		if (!found.again)
			return rq;
		insert_known(h, rq, false, found.open, now, free);
	}
}

static struct request *hw_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct hw_sched *h = sched_of(hctx->queue);
	struct request *rq;
	unsigned long flags;
	LIST_HEAD(free);
	u64 runs;

	flags = hw_lock(h);
	rq = list_first_entry_or_null(&h->spill, struct request, queuelist);
	if (rq) {
		list_del_init(&rq->queuelist);
		h->spilled--;
	} else {
		if (unlikely(READ_ONCE(hw_panic_every)) && hw_time_to_break())
			CORE(h, hw_break(&h->view, true));
		h->now = ktime_get_ns();
		rq = ask(h, hctx->queue_num, h->now, &free);
		if (unlikely(h->dead) && !rq) {
			rq = list_first_entry_or_null(&h->waiting, struct request, queuelist);
			if (rq)
				leaves(h, rq);
		}
		if (rq)
			rq->rq_flags |= RQF_STARTED;
	}
	runs = hw_after(h);
	hw_unlock(h, flags);
	if (!list_empty(&free))
		blk_mq_free_requests(&free);
	hw_run(h, runs);
	return rq;
}

/* Asked without the lock, before dispatch_request: a bit for each hardware queue says whether that would find something. */
static bool hw_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct hw_sched *h = sched_of(hctx->queue);

	if (READ_ONCE(h->spilled))
		return true;
	if (unlikely(READ_ONCE(h->dead)))
		return !list_empty_careful(&h->waiting);
	return READ_ONCE(h->view.waiting) && READ_ONCE(h->view.fresh) & BIT_ULL(hctx->queue_num & 63);
}

/*
 * A flush command, data that goes past us to the device, or what asked for the flush and was never sent itself: that one does
 * not bear the mark of a flush sequence (RQF_FLUSH_SEQ) any more when it ends.
 */
static void bypassed(struct hw_sched *h, struct request *rq, u64 now)
{
	bool sent = blk_mq_rq_state(rq) != MQ_RQ_IDLE;
	unsigned long flags;
	struct hw_io io HW_UNCLEARED;
	u64 runs;

	io_of_request(rq, &io, now);
	if (!sent)
		io.op = op_of(REQ_OP_FLUSH);
	flags = hw_lock(h);
	CORE(h, hw_bypassed(&h->view, now, &io, sent));
	runs = hw_after(h);
	hw_unlock(h, flags);
	hw_run(h, runs);
}

static void hw_completed_request(struct request *rq, u64 now)
{
	struct hw_sched *h = sched_of(rq->q);
	unsigned long flags;
	u64 runs;

	/* What passes us by, which some kernels mark as ours all the same, or what the core had no room for. */
	if (!is_ours(rq) || !handle(rq)) {
		if (!blk_rq_is_passthrough(rq))
			bypassed(h, rq, now);
		return;
	}
	flags = hw_lock(h);
	CORE(h, hw_complete(&h->view, now, handle(rq)));
	set_handle(rq, 0);
	runs = hw_after(h);
	hw_unlock(h, flags);
	hw_run(h, runs);
}

/*
 * The device has given it back. For the core that is an insertion at the head, and comes with it: what has been prepared for
 * the driver (RQF_DONTPREP, SCSI) goes from a list of blk-mq's to the driver without us, as if the device had it all the time.
 */
static void hw_requeue_request(struct request *rq)
{
	if (is_ours(rq) && handle(rq))
		put(rq, GIVEN_BACK, true);
}

/* --- merging: all of these but the first are called by the kernel while we hold the lock ---------- */

static noinline bool bio_merge(struct hw_sched *h, struct bio *bio, unsigned int segments)
{
	struct request_queue *q = h->queue;
	struct request *free = NULL;
	unsigned long flags;
	bool done = false, news = false;
	u64 runs;
	u32 proc = current_proc(h, bio, &news);

	if (!READ_ONCE(h->view.waiting) && !news)
		return false;
	flags = hw_lock(h);
	h->bio_proc = proc;
	h->now = ktime_get_ns();
	h->joined = NULL;
	if (!h->dead)
		done = blk_mq_sched_try_merge(q, bio, segments, &free);
	/* The kernel remembers whatever was joined, also where the core searches by itself and in another order. */
	if (h->joined && !has(h->joined, OPEN))
		forget_merging(q, h->joined);
	runs = hw_after(h);
	hw_unlock(h, flags);
	if (free)
		blk_mq_free_request(free);
	hw_run(h, runs);
	return done;
}

/*
 * Only what waits is joined. But where groups share, the search is also how the core learns that a process's I/O is of
 * another group from now on: before it is asked how many tags it may have.
 */
static bool hw_bio_merge(struct request_queue *q, struct bio *bio, unsigned int segments)
{
	struct hw_sched *h = sched_of(q);

	if (!READ_ONCE(h->view.waiting) && !hw_may_have_moved(h, bio))
		return false;
	return bio_merge(h, bio, segments);
}

static bool hw_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	struct hw_sched *h = sched_of(q);
	struct hw_io io;

	if (!is_ours(rq) || !handle(rq) || !has(rq, WAITS))
		return true;
	io_of_bio(h, bio, &io, h->now);
	return CORE(h, hw_may_merge(&h->view, h->now, &io, handle(rq)));
}

static int hw_request_merge(struct request_queue *q, struct request **into, struct bio *bio)
{
	struct hw_sched *h = sched_of(q);
	struct request *rq, *last = NULL;
	bool back = false;
	struct hw_io io;

	io_of_bio(h, bio, &io, h->now);
	rq = CORE(h, hw_find_merge(&h->view, h->now, &io, &back));
	/* The kernel marks what has grown to a limit. The core hears of it here, and may know another. */
	while (rq && rq != last && !may_be_joined(rq)) {
		last = rq;
		CORE(h, hw_unmergeable(&h->view, handle(rq)));
		rq = CORE(h, hw_find_merge(&h->view, h->now, &io, &back));
	}
	if (!rq || !elv_bio_merge_ok(rq, bio))
		return ELEVATOR_NO_MERGE;
	*into = rq;
	/* One more range; of it neither we nor the core hear. */
	if (has_ranges(rq))
		return ELEVATOR_DISCARD_MERGE;
	return back ? ELEVATOR_BACK_MERGE : ELEVATOR_FRONT_MERGE;
}

static void hw_request_merged(struct request_queue *q, struct request *rq, enum elv_merge type)
{
	struct hw_sched *h = sched_of(q);
	struct hw_size size = size_of(rq);

	h->joined = rq;
	if (handle(rq))
		CORE(h, hw_merged_bio(&h->view, h->now, handle(rq), &size, type != ELEVATOR_FRONT_MERGE));
}

/* The kernel has added what `gone` holds to `kept` already; the core wants both as they were. */
static void hw_requests_merged(struct request_queue *q, struct request *kept, struct request *gone)
{
	struct hw_sched *h = sched_of(q);
	struct hw_size sizes[2] = { size_of(kept), size_of(kept) };
	u32 open;

	h->joined = kept;
	/* On its way to be inserted. One that the core has no room for is to it as a bio. */
	if (!handle(gone) && !introduce(h, gone, 0, h->now, &open)) {
		CORE(h, hw_merged_bio(&h->view, h->now, handle(kept), &sizes[1], true));
		return forget_merging(q, gone);
	}
	sizes[0].sectors -= blk_rq_sectors(gone);
	sizes[0].segments = kept->nr_phys_segments > gone->nr_phys_segments ?
				    kept->nr_phys_segments - gone->nr_phys_segments : 1;
	CORE(h, hw_merged(&h->view, h->now, handle(kept), handle(gone), sizes, has(gone, WAITS)));
	if (has(gone, WAITS))
		leaves(h, gone);
	else
		forget_merging(q, gone);
	set_handle(gone, 0);
}

static struct request *neighbour(struct request_queue *q, struct request *rq, bool back)
{
	struct hw_sched *h = sched_of(q);
	struct hw_size size = size_of(rq);

	if (!handle(rq) || !has(rq, WAITS))
		return NULL;
	return CORE(h, hw_neighbour(&h->view, handle(rq), &size, back));
}

static struct request *hw_former(struct request_queue *q, struct request *rq)
{
	return neighbour(q, rq, false);
}

static struct request *hw_next(struct request_queue *q, struct request *rq)
{
	return neighbour(q, rq, true);
}

/* --- time, begin and end --------------------------------------------------------------------------- */

/* Recordings of a kernel in virtual time tell it by its name. */
static enum hrtimer_restart hw_expired(struct hrtimer *timer)
{
	struct hw_sched *h = container_of(timer, struct hw_sched, timer);
	unsigned long flags = hw_lock(h);
	u64 runs;

	h->armed = U64_MAX;
	CORE(h, hw_timer(&h->view, ktime_get_ns()));
	runs = hw_after(h);
	hw_unlock(h, flags);
	hw_run(h, runs);
	return HRTIMER_NORESTART;
}

/* How few tags a waiter may be allowed decides how many a freed tag wakes. */
static void tell_depth(struct blk_mq_hw_ctx *hctx)
{
	struct sbitmap_queue *tags = &hctx->sched_tags->bitmap_tags;
	unsigned int places = hw_counts_all_tags ? tags->sb.depth : 1U << tags->sb.shift;

	sbitmap_queue_min_shallow_depth(tags, hw_core_depth_min(sched_of(hctx->queue)->number, places));
}

static int hw_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int number)
{
	tell_depth(hctx);
	return 0;
}

static void hw_depth_updated(struct blk_mq_hw_ctx *hctx)
{
	struct hw_sched *h = sched_of(hctx->queue);
	unsigned long flags = hw_lock(h);
	u64 runs;

	CORE(h, hw_resized(&h->view, ktime_get_ns(), hctx->sched_tags->bitmap_tags.sb.depth));
	runs = hw_after(h);
	hw_unlock(h, flags);
	tell_depth(hctx);
	hw_run(h, runs);
}

static struct hw_setup setup_of(struct request_queue *q)
{
	unsigned int sets = blk_mq_is_shared_tags(q->tag_set->flags) ? 1 : q->nr_hw_queues;

	return (struct hw_setup) {
		.capacity = q->disk ? get_capacity(q->disk) : 0,
		.now = ktime_get_ns(),
		.tick_ns = TICK_NSEC,
		.queue_depth = q->tag_set->queue_depth,
		.nr_requests = q->nr_requests,
		.slots = q->nr_requests * sets + 64,
		.max_sectors = queue_max_sectors(q),
		.max_segments = queue_max_segments(q),
		.hw_queues = q->nr_hw_queues,
		.rotational = !blk_queue_nonrot(q),
		.write_cache = hw_write_cache(q),
		.fua = hw_fua(q),
		.plain_tags = hw_counts_all_tags,
	};
}

static struct hw_sched *make(struct request_queue *q, size_t number)
{
	struct hw_setup setup = setup_of(q);
	struct hw_sched *h = kzalloc_node(sizeof(*h), GFP_NOIO, q->node);

	if (!h)
		return NULL;
	spin_lock_init(&h->lock);
	INIT_LIST_HEAD(&h->spill);
	INIT_LIST_HEAD(&h->waiting);
	INIT_LIST_HEAD(&h->memory);
	h->queue = q;
	h->number = number;
	h->traits = hw_core_traits(number);
	h->armed = U64_MAX;
	h->max_sectors = h->cut = setup.max_sectors;
	hw_timer_setup(&h->timer, hw_expired);
	hw_cutting_begins(h);
	if (hw_build(h, &setup))
		return h;
	kfree(h);
	return NULL;
}

static int hw_init_sched(struct request_queue *q, struct elevator_type *type)
{
	struct elevator_queue *eq = elevator_alloc(q, type);
	struct hw_sched *h;
	unsigned long flags;
	int error = -ENOMEM;

	if (!eq)
		return -ENOMEM;
	h = make(q, hw_number(type));
	if (!h)
		goto no_sched;
	error = hw_groups_on(h);
	if (error)
		goto no_groups;
	eq->elevator_data = h;
	q->elevator = eq;
	if (h->traits & HW_REPLACES_WBT)
		hw_wbt_off(q, eq);
	flags = hw_lock(h);
	h->wants = CORE(h, hw_wants(&h->view));
	hw_after(h);
	hw_unlock(h, flags);
	hw_flush_on(h);
	return 0;
no_groups:
	hw_unbuild(h);
	kfree(h);
no_sched:
	kobject_put(&eq->kobj);
	return error;
}

static void hw_exit_sched(struct elevator_queue *eq)
{
	struct hw_sched *h = eq->elevator_data;
	unsigned long flags;
	u32 sizes[4] = {};

	hw_flush_off(h);
	/* That tells the core of groups, so that the timer may be set once more. */
	hw_groups_off(h);
	hrtimer_cancel(&h->timer);
	flags = hw_lock(h);
	CORE(h, hw_sizes(&h->view, &sizes));
	hw_unlock(h, flags);
	WARN_ON_ONCE(!list_empty(&h->waiting) || h->spilled || sizes[3]);
	hw_cutting_ends(h);
	if (h->traits & HW_REPLACES_WBT)
		hw_wbt_on(h->queue, eq);
	hw_unbuild(h);
	kfree(h);
}

const struct elevator_mq_ops hw_ops = {
	.init_sched = hw_init_sched,
	.exit_sched = hw_exit_sched,
	.init_hctx = hw_init_hctx,
	.depth_updated = hw_depth_updated,
	.allow_merge = hw_allow_merge,
	.bio_merge = hw_bio_merge,
	.request_merge = hw_request_merge,
	.request_merged = hw_request_merged,
	.requests_merged = hw_requests_merged,
	.limit_depth = hw_limit_depth,
	.prepare_request = hw_prepare_request,
	.finish_request = hw_finish_request,
	.insert_requests = hw_insert_requests,
	.dispatch_request = hw_dispatch_request,
	.has_work = hw_has_work,
	.completed_request = hw_completed_request,
	.requeue_request = hw_requeue_request,
	.former_request = hw_former,
	.next_request = hw_next,
	.exit_icq = hw_exit_icq,
};

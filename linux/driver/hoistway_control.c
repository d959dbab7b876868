// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * hoistway_control: what an I/O controller is asked, and when it lets go, as lines of text.
 *
 * io.latency and io.cost are policies of the queue (struct rq_qos): their table of operations is copied, and functions
 * of this file take the places. io.max is no such policy. The linker puts two functions of this file in the place of
 * those that the block layer calls at its entrance (`--wrap`): the question, and the way of what was held. Neither
 * source is changed or read.
 *
 * The lines are those of hoistway-replay (crates/hoistway-replay/src/control/mod.rs):
 *
 *   enter   a bio meets the controller; io.max: "pass", "hold", or "free", for which no limit applies
 *   pass    it goes on; of io.max only for what was held
 *   back    io.max: the worker that handed it on is free again
 *   join    a bio joins a request instead
 *   track   a request was made for a bio
 *   over    a bio is over
 *   done    a request is over: "alloc=NS start=NS issue=NS"
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/init.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/xarray.h>
#ifdef CONFIG_TRACEPOINTS
#include <trace/events/block.h>
#endif
#include "hoistway_record.h"
#include "../../../../block/blk-rq-qos.h"

struct controller {
	const char *name;
	const char *timer;	/* what the functions of its timers begin with */
	bool entrance;		/* at the entrance of the block layer, no policy of the queue */
	enum rq_qos_id id;
};

static const struct controller controllers[] = {
	{ .name = "io.max", .timer = "throtl_", .entrance = true },
	{ .name = "io.latency", .timer = "blkiolatency_", .id = RQ_QOS_LATENCY },
	{ .name = "io.cost", .timer = "ioc", .id = RQ_QOS_COST },
};

static const struct controller *watched;
static struct request_queue *queue;

/* A policy that is wrapped, and what it really does. */
static struct wrapped {
	struct rq_qos *rqos;
	struct rq_qos_ops ops;
	struct rq_qos_ops ours;
} wrapped[ARRAY_SIZE(controllers)];

/* Numbers of bios and requests, by address. */
static DEFINE_XARRAY(bios);
static DEFINE_XARRAY(requests);
static unsigned long next_bio, next_request;

static unsigned long number(struct xarray *of, const void *what)
{
	void *entry = xa_load(of, (unsigned long)what);

	return entry ? xa_to_value(entry) : 0;
}

static unsigned long give_number(struct xarray *to, const void *what, unsigned long *last)
{
	if (xa_is_err(xa_store(to, (unsigned long)what, xa_mk_value(++*last), GFP_ATOMIC)))
		hoistway_lost(-ENOMEM);
	return *last;
}

static struct request_queue *queue_of(struct rq_qos *rqos)
{
#if SINCE(6, 3)
	return rqos->disk->queue;
#else
	return rqos->q;
#endif
}

static struct request_queue *queue_under(struct bio *bio)
{
#if SINCE(5, 12)
	return bdev_get_queue(bio->bi_bdev);
#else
	return bio->bi_disk->queue;
#endif
}

static bool on(struct request_queue *q)
{
	return watched && q == queue && hoistway_recorded(q);
}

static void note_bio(const char *event, unsigned long n, struct bio *bio, unsigned long other, const char *result,
		     bool charged)
{
	struct hoistway_line line = {
		.event = event, .bio = n, .other = other, .sector = bio->bi_iter.bi_sector,
		.sectors = bio_sectors(bio), .opf = bio->bi_opf, .of = bio, .result = result, .more = charged,
	};

	hoistway_note(&line);
}

static void note(const char *event, unsigned long n, unsigned long other, const char *result)
{
	struct hoistway_line line = { .event = event, .bio = n, .other = other, .result = result };

	hoistway_note(&line);
}

/* io.max. Kernels without one of these functions lack the lines it would note, and attaching is refused. */

static bool bytes_were_counted(struct bio *bio)
{
#if SINCE(5, 19)
	return bio_flagged(bio, BIO_BPS_THROTTLED);
#else
	return bio_flagged(bio, BIO_THROTTLED);
#endif
}

bool __real___blk_throtl_bio(struct bio *bio) __attribute__((weak));
bool __wrap___blk_throtl_bio(struct bio *bio);
/* Newer kernels have a second argument, which goes through as it is. */
void __real_submit_bio_noacct_nocheck(struct bio *bio, unsigned long more) __attribute__((weak));
void __wrap_submit_bio_noacct_nocheck(struct bio *bio, unsigned long more);

/* The bio that has just been let through, at once or by the worker: it is seen once more. */
static struct bio *let_through;

bool __wrap___blk_throtl_bio(struct bio *bio)
{
	unsigned long n;
	bool charged, held;

	if (!watched || !watched->entrance || !on(queue_under(bio)))
		return __real___blk_throtl_bio(bio);
	n = give_number(&bios, bio, &next_bio);
	charged = bytes_were_counted(bio);
	held = __real___blk_throtl_bio(bio);
	/* Nothing is handed on in between: what was held is still there. */
	note_bio("enter", n, bio, current->pid + 1, held ? "hold" : "pass", charged);
	if (!held) {
		let_through = bio;
		xa_erase(&bios, (unsigned long)bio);
	}
	return held;
}

void __wrap_submit_bio_noacct_nocheck(struct bio *bio, unsigned long more)
{
	unsigned long n = 0;

	if (watched && watched->entrance && on(queue_under(bio)))
		n = number(&bios, bio);
	if (!n) {
		__real_submit_bio_noacct_nocheck(bio, more);
		return;
	}
	xa_erase(&bios, (unsigned long)bio);
	let_through = bio;
	note("pass", n, 0, "");
	__real_submit_bio_noacct_nocheck(bio, more);
	note("back", n, 0, "");
}

/* Older kernels lack what recording io.max needs anyway. */
#if defined(CONFIG_TRACEPOINTS) && SINCE(5, 11)
#define LISTEN
/* A bio has passed the entrance: was the controller asked at all? */
static void on_queue(void *data, struct bio *bio)
{
	if (!watched || !watched->entrance || !on(queue_under(bio)))
		return;
	if (bio != let_through)
		note_bio("enter", ++next_bio, bio, current->pid + 1, "free", false);
	let_through = NULL;
}
#endif

/* Policies of the queue. */

static struct rq_qos_ops *real(struct rq_qos *rqos)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(wrapped); i++)
		if (wrapped[i].rqos == rqos)
			return &wrapped[i].ops;
	panic("hoistway_control: a policy that was not wrapped");
}

static bool policy_on(struct rq_qos *rqos)
{
	return watched && !watched->entrance && watched->id == rqos->id && on(queue_of(rqos));
}

/* When a bio began; up to 6.16 in bits 0 to 50 of a word (include/linux/blk_types.h; not all headers have a function for it). */
static u64 issue_ns(struct bio *bio)
{
#if SINCE(6, 17)
	return bio->issue_time_ns;
#else
	return bio->bi_issue.value & ((1ull << 51) - 1);
#endif
}

static void my_throttle(struct rq_qos *rqos, struct bio *bio)
{
	struct rq_qos_ops *ops = real(rqos);
	char result[32];
	unsigned long n;

	if (!policy_on(rqos)) {
		if (ops->throttle)
			ops->throttle(rqos, bio);
		return;
	}
	n = give_number(&bios, bio, &next_bio);
	sprintf(result, "issue=%llu", issue_ns(bio));
	note_bio("enter", n, bio, current->pid + 1, result, false);
	if (ops->throttle)
		ops->throttle(rqos, bio);
	if (policy_on(rqos))
		note("pass", n, 0, "");
}

static void my_track(struct rq_qos *rqos, struct request *rq, struct bio *bio)
{
	struct rq_qos_ops *ops = real(rqos);

	if (policy_on(rqos))
		note("track", number(&bios, bio), give_number(&requests, rq, &next_request), "");
	if (ops->track)
		ops->track(rqos, rq, bio);
}

static void my_merge(struct rq_qos *rqos, struct request *rq, struct bio *bio)
{
	struct rq_qos_ops *ops = real(rqos);
	char result[32];

	if (policy_on(rqos)) {
		sprintf(result, "issue=%llu", issue_ns(bio));
		note_bio("join", give_number(&bios, bio, &next_bio), bio, number(&requests, rq), result, false);
	}
	if (ops->merge)
		ops->merge(rqos, rq, bio);
}

static void my_done(struct rq_qos *rqos, struct request *rq)
{
	struct rq_qos_ops *ops = real(rqos);
	unsigned long n = policy_on(rqos) ? number(&requests, rq) : 0;
	char result[128];

	if (n) {
		sprintf(result, "alloc=%llu start=%llu issue=%llu sectors=%u",
#ifdef CONFIG_BLK_RQ_ALLOC_TIME
			rq->alloc_time_ns,
#else
			0ull,
#endif
			rq->start_time_ns, rq->io_start_time_ns, blk_rq_stats_sectors(rq));
		note("done", n, 0, result);
		xa_erase(&requests, (unsigned long)rq);
	}
	if (ops->done)
		ops->done(rqos, rq);
}

static void my_done_bio(struct rq_qos *rqos, struct bio *bio)
{
	struct rq_qos_ops *ops = real(rqos);
	unsigned long n = policy_on(rqos) ? number(&bios, bio) : 0;

	if (n) {
		note("over", n, 0, bio->bi_status == BLK_STS_AGAIN ? "again" : "");
		xa_erase(&bios, (unsigned long)bio);
	}
	if (ops->done_bio)
		ops->done_bio(rqos, bio);
}

static void wrap(struct rq_qos *rqos)
{
	struct wrapped *free = NULL;
	int i;

	for (i = 0; i < ARRAY_SIZE(wrapped); i++) {
		if (wrapped[i].rqos == rqos && rqos->ops == &wrapped[i].ours)
			return;
		if (!wrapped[i].rqos && !free)
			free = &wrapped[i];
	}
	if (!free) {
		hoistway_lost(-ENOSPC);
		return;
	}
	free->ops = *rqos->ops;
	free->ours = free->ops;
	free->ours.throttle = my_throttle;
	free->ours.track = my_track;
	free->ours.merge = my_merge;
	free->ours.done = my_done;
	free->ours.done_bio = my_done_bio;
	free->rqos = rqos;
	rqos->ops = &free->ours;
}

/* For hoistway_record.c. */

int hoistway_control_attach(struct request_queue *q, const char *name)
{
	int i;

	watched = NULL;
	queue = q;
	if (!*name)
		return 0;
	for (i = 0; i < ARRAY_SIZE(controllers); i++)
		if (!strcmp(controllers[i].name, name))
			watched = &controllers[i];
	if (!watched)
		return -EINVAL;
	if (watched->entrance && (!__real___blk_throtl_bio || !__real_submit_bio_noacct_nocheck)) {
		watched = NULL;
		return -EOPNOTSUPP;
	}
	hoistway_control_look();
	return 0;
}

void hoistway_control_look(void)
{
	struct rq_qos *rqos;

	if (!watched || watched->entrance)
		return;
	for (rqos = queue->rq_qos; rqos; rqos = rqos->next)
		if (rqos->id == watched->id)
			wrap(rqos);
}

void hoistway_control_begin(void)
{
	xa_destroy(&bios);
	xa_destroy(&requests);
	next_bio = next_request = 0;
	let_through = NULL;
}

const char *hoistway_control_name(void)
{
	return watched ? watched->name : NULL;
}

bool hoistway_control_timer(const char *function)
{
	return watched && !strncmp(function, watched->timer, strlen(watched->timer));
}

static int __init start(void)
{
#ifdef LISTEN
	return register_trace_block_bio_queue(on_queue, NULL);
#else
	return 0;
#endif
}
late_initcall(start);

// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * hoistway_record: every call into an I/O scheduler, with its answer, as lines of text.
 *
 * The scheduler in force is wrapped: its table of operations (struct elevator_mq_ops) is copied, and functions of
 * this file take the places. They note what comes in, call the scheduler, and note what it answers. No scheduler
 * is changed or needs to know.
 *
 * The lines are those of hoistway-replay (crates/hoistway-replay/src/lib.rs), second form. They go to the host's
 * file of the kernel parameter hoistway_record=PATH.
 *
 * A program in the guest commands it by /proc/hoistway, one command per write:
 *
 *   attach FD [CONTROLLER]  the block device open as FD is watched; the scheduler in force is wrapped, for good, or
 *                           the controller io.max, io.latency or io.cost is recorded instead (hoistway_control.c)
 *   begin NAME              numbers start anew, the lines begin
 *   put EVENT\tPATH\tVALUE  writes VALUE to the file PATH, then notes "EVENT" (its columns but time and tick)
 *   note EVENT              notes "EVENT"
 *   watch FD GROUP          notes "remove" for the group whose folder is open as FD once it is gone for the scheduler,
 *                           which is some time after its folder was removed
 *   end                     the lines end and are handed to the host
 *
 * Writing and noting are one step, so that no call of the scheduler comes in between.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/iocontext.h>
#include <linux/ioprio.h>
#include <linux/jiffies.h>
#include <linux/kallsyms.h>
#include <linux/ktime.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timer.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>
#ifdef CONFIG_TRACEPOINTS
#include <trace/events/timer.h>
#endif
#include "hoistway.h"
#include "hoistway_record.h"
#if SINCE(5, 16)
#include "../../../../block/elevator.h"
#else
#include <linux/elevator.h>
#endif
#include "../../../../block/blk-mq.h"

#define BUFFER (1 << 20)
#define LINE 512
#define TYPES 8

#if SINCE(6, 4)
typedef blk_insert_t where_t;
#define AT_HEAD(where) (!!((where) & BLK_MQ_INSERT_AT_HEAD))
#else
typedef bool where_t;
#define AT_HEAD(where) (where)
#endif

/* A scheduler that is wrapped, and what it really does. */
struct wrapped {
	struct elevator_type *type;
	struct elevator_mq_ops ops;
	bool ours;	/* one of hoistway's module */
};

static char *host_path;
static int host_file = -1;
static struct wrapped wrapped[TYPES];
static struct request_queue *watched;
static bool recording;
static unsigned long created_tick;
static u64 created_ns;

static char text[BUFFER];
static unsigned long used;
/* Calls that have not returned; the host gets whole texts only when there are none. */
static int depth;
/* Why a line is missing: -ENOBUFS the buffer was full, -ENOMEM no memory, -EIO the host's file, -E2BIG a long line. */
static int lost;

/* Numbers of requests and of I/O contexts, by address; of a context, what the last line said of its process. */
static DEFINE_XARRAY(requests);
static DEFINE_XARRAY(contexts);
static DEFINE_XARRAY(told);
static unsigned long next_request, next_context;

/* What nested calls tell about the one that is under way. */
static struct request *joined;
static bool absorbed;

static int __init set_path(char *path)
{
	host_path = path;
	return 1;
}
__setup("hoistway_record=", set_path);

/* Time and tick, read without moving the clock: with interrupts off it stands still. */
struct when {
	u64 ns;
	u32 tick;
};

static struct when now(void)
{
	struct when at;
	unsigned long flags;

	local_irq_save(flags);
	at.ns = ktime_get_ns();
	at.tick = (u32)jiffies - (u32)INITIAL_JIFFIES;
	local_irq_restore(flags);
	return at;
}

static void hand_over(void)
{
	if (host_file >= 0 && used && hoistway_host_append(host_file, text, used) < 0)
		lost = -EIO;
	used = 0;
}

static unsigned long mark(void)
{
	depth++;
	return used;
}

static void done(void)
{
	if (!--depth && used > BUFFER / 2)
		hand_over();
}

/* Puts a line at a place noted earlier: what came in between was caused by that call. */
static void line_at(unsigned long place, const char *line, int len)
{
	if (used + len > BUFFER) {
		lost = -ENOBUFS;
		return;
	}
	memmove(text + place + len, text + place, used - place);
	memcpy(text + place, line, len);
	used += len;
}

/* Groups that are about to be removed. */
#define LEAVING 64
static struct leaving {
	struct cgroup_subsys_state *css;
	char name[128];
} leaving[LEAVING];
static int leaving_count;

static void look_for_the_removed(void);

static bool on(struct request_queue *q)
{
	if (!recording || q != watched)
		return false;
	if (leaving_count && !depth)
		look_for_the_removed();
	return true;
}

static struct wrapped *wrapped_of(struct elevator_type *type)
{
	int i;

	for (i = 0; i < TYPES; i++)
		if (wrapped[i].type == type)
			return &wrapped[i];
	panic("hoistway_record: a scheduler that was not wrapped");
}

static struct elevator_mq_ops *real(struct elevator_type *type)
{
	return &wrapped_of(type)->ops;
}

static struct elevator_mq_ops *ops_of(struct request_queue *q)
{
	return real(q->elevator->type);
}

static unsigned long number(struct xarray *of, const void *what)
{
	void *entry = xa_load(of, (unsigned long)what);

	return entry ? xa_to_value(entry) : 0;
}

/* Numbers are given and taken by processes and by interrupts. */
static void give_number(struct xarray *to, const void *what, unsigned long n)
{
	unsigned long flags;

	local_irq_save(flags);
	if (xa_is_err(xa_store(to, (unsigned long)what, xa_mk_value(n), GFP_ATOMIC)))
		lost = -ENOMEM;
	local_irq_restore(flags);
}

static void take_number(struct xarray *from, const void *what)
{
	unsigned long flags;

	local_irq_save(flags);
	xa_erase(from, (unsigned long)what);
	local_irq_restore(flags);
}

static unsigned long context_of(struct io_context *ioc)
{
	return ioc ? number(&contexts, ioc) : 0;
}

static char *put_number(char *to, unsigned long n)
{
	return n ? to + sprintf(to, "%lu", n - 1) : to;
}

static char *put_level(char *to, unsigned int prio)
{
	unsigned int level = prio & 7;

	switch (prio >> 13) {
	case IOPRIO_CLASS_RT:
		return to + sprintf(to, "rt%u", level);
	case IOPRIO_CLASS_BE:
		return to + sprintf(to, "%u", level);
	case IOPRIO_CLASS_IDLE:
		return to + sprintf(to, "idle");
	}
	return to;
}

static char *put_levels(char *to, unsigned int process, unsigned int bio)
{
	to = put_level(to, process);
	if (process >> 13 == bio >> 13 && (process & 7) == (bio & 7))
		return to;
	*to++ = '|';
	return put_level(to, bio);
}

static char *put_op(char *to, blk_opf_t opf)
{
	switch (opf & REQ_OP_MASK) {
	case REQ_OP_READ:
		*to++ = 'R';
		/* Somebody waits for any read; ADIOS goes by the flag itself. */
		if (opf & REQ_SYNC)
			*to++ = 'S';
		break;
	case REQ_OP_WRITE:
		*to++ = op_is_sync(opf) ? 'W' : 'A';
		break;
	case REQ_OP_DISCARD:
		*to++ = 'D';
		break;
	case REQ_OP_FLUSH:
		*to++ = 'F';
		break;
	default:
		*to++ = 'O';
	}
	if (opf & REQ_META)
		*to++ = 'M';
	if (opf & REQ_NOMERGE)
		*to++ = 'N';
	return to;
}

/* A group's path has so many bytes at most; what is longer is cut. */
#define PATH_BYTES 128

/*
 * The path of a group. The disk's page cache may be of one that is gone, and beside it there may be a new one of its name:
 * it is called NAME~NUMBER where they are told `apart`.
 */
static int put_path(char *to, int room, struct cgroup_subsys_state *css, bool apart)
{
	char name[64];
	int used = 0;

	if (!css->parent)
		return 0;
	used = put_path(to, room, css->parent, apart);
	cgroup_name(css->cgroup, name, sizeof(name));
	used += scnprintf(to + used, room - used, "%s%s", used ? "/" : "", name);
	if (apart && hoistway_is_gone(css, watched))
		used += scnprintf(to + used, room - used, "~%llu", hoistway_number_of(css->cgroup));
	return used;
}

/* The group of a bio; without one that of the caller. */
static char *put_group(char *to, struct bio *bio, bool apart)
{
	struct cgroup_subsys_state *css;
	int used = 0;

	rcu_read_lock();
	css = bio ? hoistway_css_of(bio) : task_css(current, io_cgrp_id);
	if (css)
		used = put_path(to, PATH_BYTES, css, apart);
	rcu_read_unlock();
	return used ? to + used : to + sprintf(to, "root");
}

/* event,ns,tick,request,ctx,sector,sectors,op,level,group,result,segments */
static void emit(unsigned long place, const char *event, struct when at, unsigned long request,
		 unsigned long ctx, sector_t sector, unsigned int sectors, blk_opf_t opf,
		 unsigned int process, unsigned int prio, struct bio *bio, const char *result,
		 unsigned int segments)
{
	char line[LINE], *to = line;

	to += sprintf(to, "%s,%llu,%u,", event, at.ns, at.tick);
	to = put_number(to, request);
	*to++ = ',';
	to = put_number(to, ctx);
	to += sprintf(to, ",%llu,%u,", (u64)sector, sectors);
	to = put_op(to, opf);
	*to++ = ',';
	to = put_levels(to, process, prio);
	*to++ = ',';
	to = put_group(to, bio, true);
	to += sprintf(to, ",%s,%u\n", result, segments);
	line_at(place, line, to - line);
}

/* A line that tells of no I/O but, at most, a request or a context. */
static void emit_short(unsigned long place, const char *event, struct when at, unsigned long request,
		       unsigned long ctx, const char *result)
{
	char line[LINE], *to = line;

	to += sprintf(to, "%s,%llu,%u,", event, at.ns, at.tick);
	to = put_number(to, request);
	*to++ = ',';
	to = put_number(to, ctx);
	to += sprintf(to, ",,,,,,%s,\n", result);
	line_at(place, line, to - line);
}

static void look_for_the_removed(void)
{
	char line[LINE];
	struct when at;
	int i;

	for (i = 0; i < leaving_count;) {
		bool gone;

		rcu_read_lock();
		gone = hoistway_is_gone(leaving[i].css, watched);
		rcu_read_unlock();
		if (!gone) {
			i++;
			continue;
		}
		at = now();
		line_at(used, line, scnprintf(line, sizeof(line), "remove,%llu,%u,,,,,,,%s,,\n", at.ns, at.tick,
					      leaving[i].name));
		css_put(leaving[i].css);
		leaving[i] = leaving[--leaving_count];
	}
}

static unsigned int process_prio(void)
{
	return current->io_context ? current->io_context->ioprio : 0;
}

/* For hoistway_control.c. */

bool hoistway_recorded(struct request_queue *q)
{
	return on(q);
}

void hoistway_lost(int error)
{
	lost = error;
}

void hoistway_note(const struct hoistway_line *line)
{
	char text[LINE], *to = text;
	unsigned long place, flags;
	struct when at;

	/* Nothing comes in between. */
	local_irq_save(flags);
	at = now();
	place = mark();
	to += sprintf(to, "%s,%llu,%u,", line->event, at.ns, at.tick);
	to = put_number(to, line->bio);
	*to++ = ',';
	to = put_number(to, line->other);
	if (line->of) {
		to += sprintf(to, ",%llu,%u,", (u64)line->sector, line->sectors);
		to = put_op(to, line->opf);
		to += sprintf(to, ",,");
		/* A controller goes on with what was written for a group that is gone. */
		to = put_group(to, line->of, false);
	} else {
		to += sprintf(to, ",,,,,");
	}
	to += sprintf(to, ",%s,", line->result);
	if (line->more)
		to += sprintf(to, "%u", line->more);
	*to++ = '\n';
	line_at(place, text, to - text);
	local_irq_restore(flags);
	done();
}

/* The operations. */

static void created(void)
{
	struct when at = now();

	created_tick = at.tick;
	created_ns = at.ns;
}

#if SINCE(6, 17)
static int my_init_sched(struct request_queue *q, struct elevator_queue *made)
{
	created();
	return real(made->type)->init_sched(q, made);
}
#else
static int my_init_sched(struct request_queue *q, struct elevator_type *type)
{
	created();
	return real(type)->init_sched(q, type);
}
#endif

static bool my_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	sector_t sector = bio->bi_iter.bi_sector;
	unsigned int sectors = bio_sectors(bio);
	struct when at;
	unsigned long place;
	bool merged;

	if (!on(q))
		return ops_of(q)->bio_merge(q, bio, nr_segs);
	at = now();
	place = mark();
	joined = NULL;
	merged = ops_of(q)->bio_merge(q, bio, nr_segs);
	emit(place, "merge", at, merged && joined ? number(&requests, joined) : 0,
	     context_of(current->io_context), sector, sectors, bio->bi_opf, process_prio(),
	     bio->bi_ioprio, bio, merged ? "1" : "0", nr_segs);
	done();
	return merged;
}

static void my_request_merged(struct request_queue *q, struct request *rq, enum elv_merge at)
{
	joined = rq;
	if (ops_of(q)->request_merged)
		ops_of(q)->request_merged(q, rq, at);
}

static void my_requests_merged(struct request_queue *q, struct request *kept, struct request *gone)
{
	if (on(q) && !joined)
		joined = kept;
	ops_of(q)->requests_merged(q, kept, gone);
}

static void my_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct request_queue *q = data->q;
	struct when at;
	unsigned long place;
	char result[16];

	if (!on(q)) {
		ops_of(q)->limit_depth(opf, data);
		return;
	}
	at = now();
	place = mark();
	ops_of(q)->limit_depth(opf, data);
	sprintf(result, "%u", data->shallow_depth);
	emit(place, "limit", at, 0, context_of(current->io_context), 0, 0, opf, process_prio(),
	     process_prio(), NULL, result, 0);
	done();
}

/* Who owns a request, where the scheduler wants to know that; elsewhere the field is anything. */
static struct io_context *owner(struct request *rq)
{
	if (!rq->q->elevator->type->icq_cache || !rq->elv.icq)
		return NULL;
	return rq->elv.icq->ioc;
}

/*
 * When a request of ours was asked for and had its tag, unless that is the instant of the call: ours see both at its insertion,
 * the kernel's own see neither.
 */
static void put_beginning(char *to, struct request *rq, u64 at)
{
	u64 start = rq->start_time_ns ?: at, alloc = start;

#ifdef CONFIG_BLK_RQ_ALLOC_TIME
	alloc = rq->alloc_time_ns ?: start;
#endif
	if (start != at)
		to += sprintf(to, " start=%llu", start);
	if (alloc != at)
		sprintf(to, " alloc=%llu", alloc);
}

static void insert_one(struct request_queue *q, struct blk_mq_hw_ctx *hctx, struct request *rq, where_t where)
{
	struct io_context *ioc = owner(rq);
	sector_t sector = blk_rq_pos(rq);
	unsigned int sectors = blk_rq_sectors(rq), segments = rq->nr_phys_segments;
	unsigned int prio = req_get_ioprio(rq);
	blk_opf_t opf = rq->cmd_flags;
	struct bio *bio = rq->bio;
	struct when at = now();
	unsigned long place = mark(), n = number(&requests, rq);
	char began[64] = "", result[96];
	unsigned int process;
	LIST_HEAD(one);

	if (!n) {
		n = ++next_request;
		give_number(&requests, rq, n);
		if (wrapped_of(q->elevator->type)->ours)
			put_beginning(began, rq, at.ns);
	}
	list_add(&rq->queuelist, &one);
	absorbed = false;
	joined = NULL;
	ops_of(q)->insert_requests(hctx, &one, where);
	if (!ioc && !absorbed)
		ioc = owner(rq);
	if (ioc && !context_of(ioc))
		give_number(&contexts, ioc, ++next_context);
	process = ioc ? ioc->ioprio : process_prio();
	sprintf(result, "%s%s", absorbed ? "merged" : AT_HEAD(where) ? "head" : "", began);
	emit(place, "insert", at, n, context_of(ioc), sector, sectors, opf, process, prio, bio, result, segments);
	done();
}

static void my_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, where_t where)
{
	struct request_queue *q = hctx->queue;

	if (!on(q)) {
		ops_of(q)->insert_requests(hctx, list, where);
		return;
	}
	/* One by one, so that each has its line and its answer. */
	while (!list_empty(list)) {
		struct request *rq = list_first_entry(list, struct request, queuelist);

		list_del_init(&rq->queuelist);
		insert_one(q, hctx, rq, where);
	}
}

static struct request *my_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct request_queue *q = hctx->queue;
	struct request *rq;
	struct when at;
	unsigned long place;

	if (!on(q))
		return ops_of(q)->dispatch_request(hctx);
	at = now();
	place = mark();
	rq = ops_of(q)->dispatch_request(hctx);
	emit_short(place, "dispatch", at, rq ? number(&requests, rq) : 0, 0, "");
	done();
	return rq;
}

/* The measured instants of the completion that is under way: the request is freed right after. */
static u64 completed_ns;

static void put_instants(char *to, struct request *rq)
{
	sprintf(to, "start=%llu issue=%llu end=%llu", rq->start_time_ns, rq->io_start_time_ns, completed_ns);
}

/*
 * One without a number was never handed to the scheduler (a step of a flush sequence), which is told of its
 * end all the same: a sample of latency and no completion.
 */
static void my_completed_request(struct request *rq, u64 at)
{
	struct request_queue *q = rq->q;
	char line[LINE], *to = line;
	struct when when;
	unsigned long place;

	completed_ns = at;
	if (!on(q) || number(&requests, rq)) {
		ops_of(q)->completed_request(rq, at);
		return;
	}
	when = now();
	to += sprintf(to, "sample,%llu,%u,,,,,", when.ns, when.tick);
	to = put_op(to, rq->cmd_flags);
	to += sprintf(to, ",,,");
	put_instants(to, rq);
	strcat(to, blk_mq_rq_state(rq) == MQ_RQ_IDLE ? " unsent,\n" : ",\n");
	place = mark();
	ops_of(q)->completed_request(rq, at);
	line_at(place, line, strlen(line));
	done();
}

static void my_finish_request(struct request *rq)
{
	struct request_queue *q = rq->q;
	unsigned long n;
	struct when at;
	unsigned long place;
	char result[96] = "";

	n = on(q) ? number(&requests, rq) : 0;
	if (!n) {
		ops_of(q)->finish_request(rq);
		return;
	}
	take_number(&requests, rq);
	if (blk_mq_rq_state(rq) == MQ_RQ_IDLE) {
		/* It never went to the driver: another request has absorbed it. */
		absorbed = true;
		ops_of(q)->finish_request(rq);
		return;
	}
	at = now();
	place = mark();
	if (ops_of(q)->completed_request)
		put_instants(result, rq);
	ops_of(q)->finish_request(rq);
	emit_short(place, "complete", at, n, 0, result);
	done();
}

static void my_requeue_request(struct request *rq)
{
	struct request_queue *q = rq->q;
	unsigned long n = on(q) ? number(&requests, rq) : 0, place;
	struct when at;

	if (!n) {
		ops_of(q)->requeue_request(rq);
		return;
	}
	at = now();
	place = mark();
	ops_of(q)->requeue_request(rq);
	emit_short(place, "requeue", at, n, 0, "");
	done();
}

/*
 * What ours are told of a process as a request is made for it: its priority and its group. The line comes where that is news.
 */
static void my_prepare_request(struct request *rq)
{
#if SINCE(6, 1)
	struct request_queue *q = rq->q;
	struct cgroup_subsys_state *css;
	struct io_context *ioc;
	unsigned long place, news;
	unsigned int prio;
	struct when at;

	if (!on(q)) {
		ops_of(q)->prepare_request(rq);
		return;
	}
	at = now();
	place = mark();
	ops_of(q)->prepare_request(rq);
	ioc = owner(rq);
	if (ioc) {
		prio = get_current_ioprio();
		rcu_read_lock();
		css = task_css(current, io_cgrp_id);
		news = css->serial_nr << 16 | prio;
		rcu_read_unlock();
		if (!context_of(ioc))
			give_number(&contexts, ioc, ++next_context);
		if (number(&told, ioc) != news) {
			give_number(&told, ioc, news);
			emit(place, "proc", at, 0, context_of(ioc), 0, 0, REQ_OP_READ, prio, prio, NULL, "", 0);
		}
	}
	done();
#else
	ops_of(rq->q)->prepare_request(rq);
#endif
}

static void my_exit_icq(struct io_cq *icq)
{
	struct request_queue *q = icq->q;
	unsigned long ctx = on(q) ? context_of(icq->ioc) : 0, place;
	struct when at;

	if (!ctx) {
		ops_of(q)->exit_icq(icq);
		return;
	}
	at = now();
	place = mark();
	take_number(&contexts, icq->ioc);
	take_number(&told, icq->ioc);
	ops_of(q)->exit_icq(icq);
	emit_short(place, "exit", at, 0, ctx, "");
	done();
}

/* The operations of hoistway's module are known by the names of its functions. */
static bool is_of_module(struct elevator_mq_ops *ops)
{
	char name[KSYM_SYMBOL_LEN];

	sprint_symbol_no_offset(name, (unsigned long)ops->insert_requests);
	return !strcmp(name, "hw_insert_requests");
}

static int wrap(struct elevator_type *type)
{
	struct elevator_mq_ops *ops = &type->ops;
	int i;

	for (i = 0; i < TYPES && wrapped[i].type; i++)
		if (wrapped[i].type == type)
			return 0;
	if (i == TYPES)
		return -ENOSPC;
	wrapped[i].type = type;
	wrapped[i].ops = *ops;
	wrapped[i].ours = is_of_module(ops);
#define WRAP(op) do { if (ops->op) ops->op = my_##op; } while (0)
	WRAP(init_sched);
	WRAP(bio_merge);
	WRAP(requests_merged);
	WRAP(limit_depth);
	WRAP(insert_requests);
	WRAP(dispatch_request);
	WRAP(completed_request);
	WRAP(finish_request);
	WRAP(requeue_request);
	WRAP(exit_icq);
	if (wrapped[i].ours)
		WRAP(prepare_request);
#undef WRAP
	/* Also where the scheduler has none of its own: it tells which request a bio joined. */
	ops->request_merged = my_request_merged;
	return 0;
}

/* Timers of the scheduler fire between its calls; they are known by the names of their functions. */
#ifdef CONFIG_TRACEPOINTS
static const char timers[] = " timers";

static void timer_fired(void *function)
{
	char name[KSYM_SYMBOL_LEN];

	if (!recording)
		return;
	/* A group that has gone by now is gone for what the timer does. */
	if (leaving_count && !depth)
		look_for_the_removed();
	sprint_symbol_no_offset(name, (unsigned long)function);
	if (hoistway_control_timer(name))
		emit_short(used, "timer", now(), 0, 0, name);
	if (strncmp(name, "bfq_", 4) && strncmp(name, "kyber_", 6) && strcmp(name, "hw_expired"))
		return;
	emit_short(used, "timer", now(), 0, 0, "");
}

static void __maybe_unused on_hrtimer(void *data, struct hrtimer *timer, ktime_t *at)
{
	timer_fired(timer->function);
}

static void __maybe_unused on_hrtimer_at(void *data, struct hrtimer *timer, ktime_t at)
{
	timer_fired(timer->function);
}

/* Versions differ in how the tracepoint passes its instant. */
typedef int by_value_t(void (*)(void *, struct hrtimer *, ktime_t), void *);
#define ON_HRTIMER _Generic(&register_trace_hrtimer_expire_entry, by_value_t *: on_hrtimer_at, default: on_hrtimer)

static void on_timer(void *data, struct timer_list *timer, unsigned long base)
{
	timer_fired(timer->function);
}

static int __init watch_timers(void)
{
	return register_trace_hrtimer_expire_entry(ON_HRTIMER, NULL) ?:
	       register_trace_timer_expire_entry(on_timer, NULL);
}
#else
static const char timers[] = "";

static int __init watch_timers(void)
{
	return 0;
}
#endif

/* Commands. */

static int attach(int fd, const char *controller)
{
	struct file *file = fget(fd);
	struct inode *inode;
	int error = -ENOTBLK;

	if (!file)
		return -EBADF;
	inode = file->f_mapping->host;
	if (S_ISBLK(inode->i_mode)) {
		watched = bdev_get_queue(I_BDEV(inode));
		error = hoistway_control_attach(watched, controller);
		if (!*controller)
			error = watched->elevator ? wrap(watched->elevator->type) : -EINVAL;
	}
	fput(file);
	return error;
}

static int watch(int fd, const char *group)
{
	struct cgroup_subsys_state *css;
	struct file *file;

	if (leaving_count == LEAVING)
		return -ENOSPC;
	file = fget(fd);
	if (!file)
		return -EBADF;
	css = css_tryget_online_from_dir(file->f_path.dentry, &io_cgrp_subsys);
	fput(file);
	if (IS_ERR(css))
		return PTR_ERR(css);
	leaving[leaving_count].css = css;
	strscpy(leaving[leaving_count].name, group, sizeof(leaving[0].name));
	leaving_count++;
	return 0;
}

static int begin(const char *name)
{
	const char *controller = hoistway_control_name();
	char line[LINE];
	int len;

	if (!watched || (!watched->elevator && !controller))
		return -EINVAL;
	hoistway_control_begin();
	xa_destroy(&requests);
	xa_destroy(&contexts);
	xa_destroy(&told);
	next_request = next_context = 0;
	lost = 0;
	len = snprintf(line, sizeof(line), "begin %s\n"
		"event,ns,tick,request,ctx,sector,sectors,op,level,group,result,segments\n"
		"device,,,,,,,,,,%s=%s release=%d.%d rotational=%d created_tick=%lu created_ns=%llu tick_ns=%lu max_sectors=%u max_segments=%u tags=%lu depth=%u noweights%s%s,\n",
		name, controller ? "controller" : "scheduler",
		controller ? controller : watched->elevator->type->elevator_name, LINUX_VERSION_CODE >> 16,
		LINUX_VERSION_CODE >> 8 & 0xff, hoistway_rotational(watched), created_tick, created_ns,
		1000000000ul / HZ, queue_max_sectors(watched), (unsigned int)queue_max_segments(watched),
		(unsigned long)watched->nr_requests, watched->tag_set->queue_depth, timers,
		!controller && wrapped_of(watched->elevator->type)->ours ? " inside" : "");
	if (len >= sizeof(line))
		return -ENAMETOOLONG;
	line_at(used, line, len);
	recording = true;
	return 0;
}

static int end(void)
{
	int error = lost;

	recording = false;
	while (leaving_count)
		css_put(leaving[--leaving_count].css);
	if (error) {
		lost = 0;
		used = 0;
		return error;
	}
	line_at(used, "end\n", 4);
	hand_over();
	return lost;
}

static void note(const char *event)
{
	char line[LINE];
	struct when at = now();
	const char *comma = strchr(event, ',');
	int name = comma ? comma - event : strlen(event), len;

	if (!recording)
		return;
	len = snprintf(line, sizeof(line), "%.*s,%llu,%u%s\n", name, event, at.ns, at.tick, event + name);
	if (len < sizeof(line))
		line_at(used, line, len);
	else
		lost = -E2BIG;
}

static int put(char *event)
{
	char *path = strchr(event, '\t'), *value = path ? strchr(path + 1, '\t') : NULL;
	struct file *file;
	loff_t pos = 0;
	ssize_t written;

	if (!value)
		return -EINVAL;
	*path++ = 0;
	*value++ = 0;
	file = filp_open(path, O_WRONLY, 0);
	if (IS_ERR(file))
		return PTR_ERR(file);
	written = kernel_write(file, value, strlen(value), &pos);
	hoistway_control_look();
	if (written >= 0)
		note(event);
	filp_close(file, NULL);
	return written < 0 ? written : 0;
}

static ssize_t command(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
	char *text = len < PAGE_SIZE ? memdup_user_nul(from, len) : ERR_PTR(-E2BIG);
	char group[128], controller[16] = "";
	int fd, error = 0;

	if (IS_ERR(text))
		return PTR_ERR(text);
	if (sscanf(text, "attach %d %15s", &fd, controller) >= 1)
		error = attach(fd, controller);
	else if (!strncmp(text, "begin ", 6))
		error = begin(text + 6);
	else if (!strncmp(text, "put ", 4))
		error = put(text + 4);
	else if (!strncmp(text, "note ", 5))
		note(text + 5);
	else if (sscanf(text, "watch %d %127s", &fd, group) == 2)
		error = watch(fd, group);
	else if (!strcmp(text, "end"))
		error = end();
	else
		error = -EINVAL;
	kfree(text);
	return error ? error : len;
}

#if SINCE(5, 6)
static const struct proc_ops commands = { .proc_write = command };
#else
static const struct file_operations commands = { .write = command };
#endif

static int __init start(void)
{
	if (!host_path)
		return 0;
	host_file = hoistway_host_create(host_path);
	if (host_file < 0) {
		pr_err("hoistway_record: cannot create %s: error %d\n", host_path, -host_file);
		return host_file;
	}
	if (!proc_create("hoistway", 0600, NULL, &commands))
		return -ENOMEM;
	return watch_timers() ?: hoistway_flush_watch();
}
late_initcall(start);

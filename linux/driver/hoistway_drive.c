// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The disk "hw0" of a kernel in virtual time: a blk-mq driver whose drive is a model outside.
 *
 * Commands go out in the batches in which the block layer makes them (`bd->last`), each batch as one message; the
 * answer says when the drive has something to say next, and a timer of exactly that instant asks for what is done.
 * Between two such instants nothing has to be asked. Completion is by the block layer's softirq, in the order in
 * which the drive names the commands. Data moves at completion.
 *
 * What the drive's host adapter does on a machine is done here: a command that cannot be queued (a flush of SATA)
 * waits outside until the drive is empty, and nothing is taken beside it; behind the SCSI layer a place in the drive
 * is taken before the scheduler is asked, and the queues are run at a completion if there was none.
 *
 * The conditions on the version follow the kernel's own changes of these interfaces.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/highmem.h>
#include <linux/hrtimer.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/ioprio.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/reboot.h>
#include "hoistway.h"
#include "hoistway_kernel.h"

struct drive_request {
	int budget;
};

static const struct hoistway_info *info;
static struct blk_mq_tag_set tags;
static struct request_queue *disk_queue;
static struct hrtimer timer;
static struct tasklet_struct tasklet;
/* Interrupts are off whenever these change; there is one processor. */
static DEFINE_SPINLOCK(lock);
static struct hoistway_command batch[HOISTWAY_BATCH];
static unsigned int batched;
static bool alone;		/* a command that is taken alone is with the drive, or waits for it to be empty */
static unsigned int budgets;	/* places in the drive that are taken */
static bool refused;		/* somebody found none */

static u64 now(void)
{
	return ktime_get_ns();
}

/* The drive will have something to say at `next`. */
static void arm(u64 next)
{
	if (next == HOISTWAY_NEVER)
		hrtimer_try_to_cancel(&timer);
	else if (next <= now())
		tasklet_schedule(&tasklet);
	else
		hrtimer_start(&timer, ns_to_ktime(next), HRTIMER_MODE_ABS);
}

static void submit_batch(void)
{
	u64 next;

	if (!batched)
		return;
	next = hoistway_host_submit(now(), batch, batched);
	batched = 0;
	arm(next);
}

static void copy_data(struct request *rq)
{
	u64 at = (u64)blk_rq_pos(rq) << 9;
	struct req_iterator iter;
	struct bio_vec part;

	if (req_op(rq) == REQ_OP_DISCARD)
		return hoistway_host_discard(at, blk_rq_bytes(rq));
	if (req_op(rq) != REQ_OP_READ && req_op(rq) != REQ_OP_WRITE)
		return;
	rq_for_each_segment(part, rq, iter) {
		void *memory = page_address(part.bv_page) + part.bv_offset;

		if (req_op(rq) == REQ_OP_READ)
			hoistway_host_read(at, memory, part.bv_len);
		else if (hoistway_host_write(at, memory, part.bv_len))
			panic("hoistway: no room for the drive's data (%llu MiB)", info->data_limit >> 20);
		at += part.bv_len;
	}
}

static bool taken_alone(struct request *rq)
{
	return (req_op(rq) == REQ_OP_FLUSH && info->flush_alone) ||
	       (req_op(rq) == REQ_OP_DISCARD && info->discard_alone);
}

/* What the drive has done by now; returns when to ask again. The lock is held, and free while a request is completed. */
static u64 collect(void)
{
	static unsigned int done[HOISTWAY_BATCH];
	unsigned int count, i;
	u64 next;

	do {
		next = hoistway_host_poll(now(), done, &count);
		for (i = 0; i < count; i++) {
			struct request *rq = blk_mq_tag_to_rq(tags.tags[0], done[i]);

			if (taken_alone(rq))
				alone = false;
			copy_data(rq);
			/* With one processor that calls complete_rq, and by it the block layer, at once. */
			spin_unlock(&lock);
			blk_mq_complete_request(rq);
			spin_lock(&lock);
		}
	} while (next <= now());
	return next;
}

static enum hrtimer_restart timer_fired(struct hrtimer *unused)
{
	unsigned long flags;
	u64 next;

	spin_lock_irqsave(&lock, flags);
	next = collect();
	if (next != HOISTWAY_NEVER)
		hrtimer_set_expires(&timer, ns_to_ktime(next));
	spin_unlock_irqrestore(&lock, flags);
	return next == HOISTWAY_NEVER ? HRTIMER_NORESTART : HRTIMER_RESTART;
}

static void tasklet_ran(unsigned long unused)
{
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	arm(collect());
	spin_unlock_irqrestore(&lock, flags);
}

static u64 group_of(struct request *rq)
{
	struct cgroup_subsys_state *css = rq->bio ? hoistway_css_of(rq->bio) : NULL;

	return css ? hoistway_number_of(css->cgroup) : 0;
}

static unsigned int flags_of(struct request *rq)
{
	static const struct { unsigned int kernels, ours; } known[] = {
		{ REQ_FUA, HOISTWAY_FUA }, { REQ_PREFLUSH, HOISTWAY_PREFLUSH }, { REQ_SYNC, HOISTWAY_SYNC },
		{ REQ_META, HOISTWAY_META }, { REQ_PRIO, HOISTWAY_PRIO }, { REQ_RAHEAD, HOISTWAY_READ_AHEAD },
		{ REQ_IDLE, HOISTWAY_IDLE }, { REQ_BACKGROUND, HOISTWAY_BACKGROUND },
	};
	unsigned int flags = 0, i;

	for (i = 0; i < ARRAY_SIZE(known); i++)
		if (rq->cmd_flags & known[i].kernels)
			flags |= known[i].ours;
	return flags;
}

static int op_of(struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
		return HOISTWAY_READ;
	case REQ_OP_WRITE:
		return HOISTWAY_WRITE;
	case REQ_OP_FLUSH:
		return HOISTWAY_FLUSH;
	case REQ_OP_DISCARD:
		return HOISTWAY_DISCARD;
	default:
		return -1;
	}
}

/*
 * A place in the drive is free again: that of `rq`, if there is one. The block layer gives the places back of all that
 * it could not hand over, once it has been refused one of several, and that one is among them: it must not have any more.
 */
static void give_back(struct request *rq)
{
	if (!budgets)
		panic("hoistway: more places in the drive are given back than were taken");
	budgets--;
	if (rq)
		((struct drive_request *)blk_mq_rq_to_pdu(rq))->budget = -1;
}

static blk_status_t queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *bd)
{
	struct request *rq = bd->rq;
	struct hoistway_command *command;
	unsigned long flags;
	int op = op_of(rq);

	if (op < 0)
		return BLK_STS_NOTSUPP;
	spin_lock_irqsave(&lock, flags);
	if (alone) {
		/* Its completion runs the queue. As in the SCSI layer, what is refused gives its place in the drive back. */
		if (info->scsi)
			give_back(rq);
		submit_batch();
		spin_unlock_irqrestore(&lock, flags);
		return BLK_STS_DEV_RESOURCE;
	}
	blk_mq_start_request(rq);
	alone = taken_alone(rq);
	command = &batch[batched++];
	command->tag = rq->tag;
	command->op = op;
	command->prio = req_get_ioprio(rq);
	command->flags = flags_of(rq);
	command->bytes = op == HOISTWAY_FLUSH ? 0 : blk_rq_bytes(rq);
	command->sector = op == HOISTWAY_FLUSH ? 0 : blk_rq_pos(rq);
	command->group = group_of(rq);
	if (bd->last || batched == HOISTWAY_BATCH)
		submit_batch();
	spin_unlock_irqrestore(&lock, flags);
	return BLK_STS_OK;
}

static void commit_rqs(struct blk_mq_hw_ctx *hctx)
{
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	submit_batch();
	spin_unlock_irqrestore(&lock, flags);
}

static bool take_place(void)
{
	unsigned long flags;
	bool free;

	if (!info->scsi)
		return true;
	spin_lock_irqsave(&lock, flags);
	free = budgets < info->depth;
	if (free)
		budgets++;
	else
		refused = true;
	spin_unlock_irqrestore(&lock, flags);
	return free;
}

static void put_place(void)
{
	unsigned long flags;

	if (!info->scsi)
		return;
	spin_lock_irqsave(&lock, flags);
	give_back(NULL);
	spin_unlock_irqrestore(&lock, flags);
}

#if SINCE(5, 13)
static int get_budget(struct request_queue *queue)
{
	return take_place() ? 0 : -1;
}

static void put_budget(struct request_queue *queue, int token)
{
	put_place();
}

static void set_budget_token(struct request *rq, int token)
{
	((struct drive_request *)blk_mq_rq_to_pdu(rq))->budget = token;
}

static int budget_token(struct request *rq)
{
	return ((struct drive_request *)blk_mq_rq_to_pdu(rq))->budget;
}
#else
#if SINCE(5, 8)
typedef struct request_queue budget_of_t;
#else
typedef struct blk_mq_hw_ctx budget_of_t;
#endif

static bool get_budget(budget_of_t *unused)
{
	return take_place();
}

static void put_budget(budget_of_t *unused)
{
	put_place();
}
#endif

static void complete_rq(struct request *rq)
{
	unsigned long flags;
	bool run = false;

	if (info->scsi) {
		spin_lock_irqsave(&lock, flags);
		give_back(rq);
		/* As the SCSI layer: up to 5.9 after each, then only if somebody waits for it. */
		run = refused || !SINCE(5, 10);
		refused = false;
		spin_unlock_irqrestore(&lock, flags);
	}
	blk_mq_end_request(rq, BLK_STS_OK);
	if (run)
		blk_mq_run_hw_queues(disk_queue, true);
}

static const struct blk_mq_ops operations = {
	.queue_rq = queue_rq,
	.commit_rqs = commit_rqs,
	.complete = complete_rq,
	.get_budget = get_budget,
	.put_budget = put_budget,
#if SINCE(5, 13)
	.set_rq_budget_token = set_budget_token,
	.get_rq_budget_token = budget_token,
#endif
};

static const struct block_device_operations disk_operations = { .owner = THIS_MODULE };

static int says_bye(struct notifier_block *self, unsigned long event, void *unused)
{
	hoistway_host_bye(now());
	return NOTIFY_DONE;
}

static struct notifier_block at_reboot = { .notifier_call = says_bye };

static int make_tags(void)
{
	tags.ops = &operations;
	tags.nr_hw_queues = info->hw_queues;
	tags.queue_depth = info->depth;
	tags.cmd_size = sizeof(struct drive_request);
	tags.numa_node = NUMA_NO_NODE;
	/* No drive is lost, however long it takes. */
	tags.timeout = 24 * 3600 * HZ;
#if !SINCE(6, 14)
	tags.flags = BLK_MQ_F_SHOULD_MERGE;
	if (info->tags_round_robin)
		tags.flags |= BLK_ALLOC_POLICY_TO_MQ_FLAG(BLK_TAG_ALLOC_RR);
#else
	if (info->tags_round_robin)
		tags.flags |= BLK_MQ_F_TAG_RR;
#endif
	return blk_mq_alloc_tag_set(&tags);
}

#if SINCE(6, 9)
static struct gendisk *make_disk(void)
{
	struct queue_limits limits = {
		.logical_block_size = info->logical,
		.physical_block_size = info->physical,
		.max_hw_sectors = info->max_sectors,
		.max_segments = info->max_segments,
		.max_segment_size = UINT_MAX,
		.max_hw_discard_sectors = info->max_discard_sectors,
		.discard_granularity = info->max_discard_sectors ? info->discard_granularity : 0,
	};
	struct gendisk *disk;

#if SINCE(6, 11)
	if (info->rotational)
		limits.features |= BLK_FEAT_ROTATIONAL;
	if (info->write_cache)
		limits.features |= BLK_FEAT_WRITE_CACHE;
	if (info->write_cache && info->fua)
		limits.features |= BLK_FEAT_FUA;
#endif
	disk = blk_mq_alloc_disk(&tags, &limits, NULL);
#if !SINCE(6, 11)
	if (!IS_ERR(disk)) {
		blk_queue_write_cache(disk->queue, info->write_cache, info->write_cache && info->fua);
		if (!info->rotational)
			blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->queue);
	}
#endif
	return disk;
}
#else
static struct gendisk *make_disk(void)
{
	struct request_queue *queue;
	struct gendisk *disk;

#if SINCE(5, 14)
	disk = blk_mq_alloc_disk(&tags, NULL);
	if (IS_ERR(disk))
		return disk;
	queue = disk->queue;
#else
	queue = blk_mq_init_queue(&tags);
	if (IS_ERR(queue))
		return ERR_CAST(queue);
	disk = alloc_disk(1);
	if (!disk)
		return ERR_PTR(-ENOMEM);
	disk->queue = queue;
#endif
	blk_queue_logical_block_size(queue, info->logical);
	blk_queue_physical_block_size(queue, info->physical);
	blk_queue_max_hw_sectors(queue, info->max_sectors);
	blk_queue_max_segments(queue, info->max_segments);
	blk_queue_max_segment_size(queue, UINT_MAX);
	if (info->max_discard_sectors) {
		queue->limits.discard_granularity = info->discard_granularity;
		blk_queue_max_discard_sectors(queue, info->max_discard_sectors);
#if !SINCE(5, 19)
		blk_queue_flag_set(QUEUE_FLAG_DISCARD, queue);
#endif
	}
	blk_queue_write_cache(queue, info->write_cache, info->write_cache && info->fua);
	if (!info->rotational)
		blk_queue_flag_set(QUEUE_FLAG_NONROT, queue);
	return disk;
}
#endif

static int add(struct gendisk *disk)
{
	int major = register_blkdev(0, "hw");

	if (major < 0)
		return major;
	disk->major = major;
	disk->first_minor = 0;
	disk->minors = 1;
	disk->fops = &disk_operations;
	/* Nobody looks for partitions: the first command at the drive is the experiment's. */
#ifdef GENHD_FL_NO_PART_SCAN
	disk->flags |= GENHD_FL_NO_PART_SCAN;
#else
	disk->flags |= GENHD_FL_NO_PART;
#endif
	strcpy(disk->disk_name, "hw0");
	set_capacity(disk, info->capacity);
	disk_queue = disk->queue;
#if SINCE(5, 15)
	return add_disk(disk);
#else
	add_disk(disk);
	return 0;
#endif
}

static int __init start(void)
{
	struct gendisk *disk;
	int error;

	info = hoistway_host_hello();
	if (!info)
		return 0;
#if SINCE(6, 13)
	hrtimer_setup(&timer, timer_fired, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#else
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	timer.function = timer_fired;
#endif
	tasklet_init(&tasklet, tasklet_ran, 0);
	register_reboot_notifier(&at_reboot);
	error = make_tags();
	if (error)
		return error;
	disk = make_disk();
	return IS_ERR(disk) ? PTR_ERR(disk) : add(disk);
}

/* After the policies of blk-cgroup, or the disk has no io.latency, io.cost and io.max. */
late_initcall(start);

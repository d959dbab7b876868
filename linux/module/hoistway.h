/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the files of the module share: one queue, its lock, its memory, its groups. */
#ifndef HOISTWAY_H
#define HOISTWAY_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include "hoistway_compat.h"
#include "hoistway_core.h"

#define HW_REASON 160

/* A kernel that clears all variables of functions need not clear this one, all of which is written. */
#if __has_attribute(uninitialized)
#define HW_UNCLEARED __attribute__((uninitialized))
#else
#define HW_UNCLEARED
#endif

/* One queue with one of our schedulers. */
struct hw_sched {
	struct hw_view view;
	spinlock_t lock;
	/* The core has panicked: it is not entered again, and all is served in the order of arrival. */
	bool dead;
	/* What follows from that has been done. */
	bool buried;
	char reason[HW_REASON];
	/* What the core has allocated. */
	struct list_head memory;
	/* Number of the scheduler, and what it is. */
	size_t number;
	u32 traits;
	u32 wants;
	/* The core has been told of a group beside the root. */
	bool grouped;
	struct request_queue *queue;
	struct hrtimer timer;
	u64 armed;
	/* Requests that the core has, in the order of arrival; and those it had no room for or must not see, which go first. */
	struct list_head waiting, spill;
	unsigned int spilled;
	/* The device's limit, and what the scheduler has made of it. */
	unsigned int max_sectors, cut;
	/* In the queue's limit: what it is without a cut, what we wrote there last; and from 6.11 on the work that writes it. */
	unsigned int limit, written;
	struct work_struct cutting;
	/* Whose bio it is that looks for a request, and when; the lock is held. */
	u32 bio_proc;
	u64 now;
	/* The request that a bio has just joined. */
	struct request *joined;
	/* Of all queues with one of our schedulers. */
	struct list_head all;
};

/* The queue whose core this processor may be in; interrupts are off. */
DECLARE_PER_CPU(struct hw_sched *, hw_here);

static inline unsigned long hw_lock(struct hw_sched *h)
{
	unsigned long flags;

	spin_lock_irqsave(&h->lock, flags);
	this_cpu_write(hw_here, h);
	return flags;
}

static inline void hw_unlock(struct hw_sched *h, unsigned long flags)
{
	this_cpu_write(hw_here, NULL);
	spin_unlock_irqrestore(&h->lock, flags);
}

/* A call into the core, which answers 0 where there is none any more. */
#define CORE(h, call) (unlikely((h)->dead) ? 0 : (call))

/* hoistway_memory.c */
int hw_memory_init(void);
void hw_memory_exit(void);
bool hw_build(struct hw_sched *h, const struct hw_setup *setup);
void hw_unbuild(struct hw_sched *h);
extern unsigned int hw_panic_every;
bool hw_time_to_break(void);

/* hoistway_group.c */
struct bio;
int hw_groups_init(void);
void hw_groups_exit(void);
int hw_groups_on(struct hw_sched *h);
void hw_groups_off(struct hw_sched *h);
u32 hw_group_of_weighed(struct hw_sched *h, struct bio *bio, u64 now);
/* Equal for bios of one group; no number of the core's. Ids are used again, and the kernel has the last word on a merge. */
u32 hw_mark_of_group(struct bio *bio);
static inline u32 hw_group_of_bio(struct hw_sched *h, struct bio *bio, u64 now)
{
	if (h->traits & HW_HAS_WEIGHTS)
		return hw_group_of_weighed(h, bio, now);
	/* Where the core knows no groups and searches by itself, it must pass what the kernel would refuse. */
	return h->traits & HW_SEARCHES ? hw_mark_of_group(bio) : 0;
}
/* The bio's process may have been in another group with its last one. */
bool hw_weighed_may_have_moved(struct hw_sched *h, struct bio *bio);
static inline bool hw_may_have_moved(struct hw_sched *h, struct bio *bio)
{
	return h->traits & HW_HAS_WEIGHTS && hw_weighed_may_have_moved(h, bio);
}
/* Of the running process; under RCU, which `key` is good for to see whether it has moved. */
u32 hw_group_of_current(struct hw_sched *h, const void **key, u64 now);

/* hoistway_module.c */
struct elevator_type;
/* Which of our schedulers that is; SIZE_MAX: it is not ours. */
size_t hw_number(const struct elevator_type *type);

/* hoistway_elevator.c */
extern const struct elevator_mq_ops hw_ops;
extern const size_t hw_icq_size, hw_icq_align;
/* After calls into the core, the lock held: timer, largest request; and the hardware queues to run once it is free. */
u64 hw_after_news(struct hw_sched *h);
static inline u64 hw_after(struct hw_sched *h)
{
	struct hw_view *view = &h->view;

	if (likely(!h->dead && view->next_timer == h->armed && view->max_sectors == h->cut && !view->runs))
		return 0;
	return hw_after_news(h);
}
void hw_run_these(struct hw_sched *h, u64 runs);
static inline void hw_run(struct hw_sched *h, u64 runs)
{
	if (unlikely(runs))
		hw_run_these(h, runs);
}

/* hoistway_limits.c: the largest request that the scheduler wants, and its end; the lock is held but at begin and end */
void hw_cutting_begins(struct hw_sched *h);
void hw_cutting_ends(struct hw_sched *h);
void hw_cut_to(struct hw_sched *h, unsigned int sectors);
/* A limit of tags counts over all of a queue, not in each word. */
extern bool hw_counts_all_tags;
int hw_tags_init(void);

/* hoistway_flush.c */
void hw_flush_init(void);
void hw_flush_exit(void);
void hw_flush_on(struct hw_sched *h);
void hw_flush_off(struct hw_sched *h);

#endif

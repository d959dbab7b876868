// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The largest request, which splitting and merging read from the limits of the queue. These are changed in place, or, since 6.11,
 * under a mutex, and so by a work item: a cut comes into force a moment later.
 *
 * And how many tags an I/O may have. Kernels have counted that by words of the bitmap and count it over the whole today. The change
 * went into stable releases too, so the number of the version does not tell: a bitmap is asked once.
 */
#include <linux/preempt.h>
#include <linux/sbitmap.h>
#include "hoistway.h"

bool hw_counts_all_tags;

int hw_tags_init(void)
{
	const unsigned int words = 8, shift = 3;
	struct sbitmap tags;
	unsigned int n = 0;
	int error = sbitmap_init_node(&tags, words << shift, shift, GFP_KERNEL, NUMA_NO_NODE, false, true);

	if (error)
		return error;
	/* One place: of each word, or of all? */
	preempt_disable();
	while (n < words && sbitmap_get_shallow(&tags, 1) >= 0)
		n++;
	preempt_enable();
	sbitmap_free(&tags);
	hw_counts_all_tags = n < words;
	return 0;
}

/*
 * What the limit is to be. An administrator may write it (max_sectors_kb) while a cut is in force: that is a limit like the one before,
 * holds for later cuts too, and stays when the scheduler goes. Only one who writes the value that is in force is not noticed. `none`
 * stands for no limit.
 */
static unsigned int limit_for(struct hw_sched *h, unsigned int found, unsigned int none)
{
	unsigned int cut = READ_ONCE(h->cut);

	if (found != h->written)
		h->limit = found;
	return cut == h->max_sectors || (h->limit != none && h->limit < cut) ? h->limit : cut;
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)

void hw_cut_to(struct hw_sched *h, unsigned int sectors)
{
	unsigned int *limit = &h->queue->limits.max_sectors, found, wanted;

	if (sectors == h->cut)
		return;
	h->cut = sectors;
	/* The administrator's write holds no lock that we may take here. */
	do {
		found = READ_ONCE(*limit);
		wanted = limit_for(h, found, UINT_MAX);
	} while (cmpxchg(limit, found, wanted) != found);
	h->written = wanted;
}

void hw_cutting_begins(struct hw_sched *h)
{
	h->limit = h->written = h->queue->limits.max_sectors;
}

void hw_cutting_ends(struct hw_sched *h)
{
	hw_cut_to(h, h->max_sectors);
}

#else

static void cut_now(struct work_struct *work)
{
	struct hw_sched *h = container_of(work, struct hw_sched, cutting);
	struct queue_limits limits = queue_limits_start_update(h->queue);

	unsigned int wanted = limit_for(h, limits.max_user_sectors, 0);

	limits.max_user_sectors = wanted;
	if (queue_limits_commit_update(h->queue, &limits))
		pr_warn_once("hoistway: the kernel refuses requests of %u sectors\n", wanted);
	else
		h->written = wanted;
}

void hw_cut_to(struct hw_sched *h, unsigned int sectors)
{
	if (sectors == h->cut)
		return;
	WRITE_ONCE(h->cut, sectors);
	schedule_work(&h->cutting);
}

void hw_cutting_begins(struct hw_sched *h)
{
	h->limit = h->written = h->queue->limits.max_user_sectors;
	INIT_WORK(&h->cutting, cut_now);
}

void hw_cutting_ends(struct hw_sched *h)
{
	hw_cut_to(h, h->max_sectors);
	flush_work(&h->cutting);
}

#endif

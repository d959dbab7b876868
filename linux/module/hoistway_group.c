// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Groups: a policy of the kernel's block cgroups tells when one goes away, and has their weights.
 *
 * The core hears of a group with its first I/O. The file io.hoistway.weight of a group is its share among its siblings under
 * the schedulers of ours that have weights; those take 1 to 1000 or 1 to 10000 and refuse what is above. A line of
 * io.hoistway.latency, "MAJ:MIN target=auto", is read by the core, which keeps it as long as the group and the scheduler last.
 */
#include <linux/blk-cgroup.h>
#include <linux/cgroup.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include "hoistway.h"
#include "blk-mq-sched.h"
#include "blk-cgroup.h"

#ifdef CONFIG_BLK_CGROUP

/* What the file shows where none was written; cfq's own is 500. */
#define WEIGHT 100
#define WEIGHT_MOST 10000

/* Of a group on a queue. */
struct hw_pd {
	struct blkg_policy_data pd;	/* must be first */
	struct hw_sched *sched;
	u32 group;			/* 0: the core does not know it yet */
	bool gone;
};

/* Of a group. */
struct hw_cpd {
	struct blkcg_policy_data cpd;	/* must be first */
	u32 weight;			/* 0: none was written, the scheduler's own counts */
};

static LIST_HEAD(queues);
static DEFINE_SPINLOCK(queues_lock);
static struct blkcg_policy policy;

static struct hw_pd *pd_of(struct blkcg_gq *blkg)
{
	struct blkg_policy_data *pd = blkg_to_pd(blkg, &policy);

	return pd ? container_of(pd, struct hw_pd, pd) : NULL;
}

static struct hw_cpd *cpd_of(struct blkcg *blkcg)
{
	return container_of(blkcg_to_cpd(blkcg, &policy), struct hw_cpd, cpd);
}

/* The nearest group, from this one upwards, that exists for us; NULL: the root. */
static struct hw_pd *living(struct blkcg_gq *blkg)
{
	for (; blkg && blkg->parent; blkg = blkg->parent) {
		struct hw_pd *pd = pd_of(blkg);

		if (pd && !pd->gone)
			return pd;
	}
	return NULL;
}

static void add(struct hw_sched *h, struct hw_pd *pd, u32 parent, u64 now)
{
	u32 weight = READ_ONCE(cpd_of(pd->pd.blkg->blkcg)->weight);

	WRITE_ONCE(h->grouped, true);
	pd->group = CORE(h, hw_group(&h->view, now, parent));
	if (pd->group && weight && (h->traits & HW_HAS_WEIGHTS) &&
	    !CORE(h, hw_weight(&h->view, now, pd->group, weight)) && !h->dead)
		pr_warn_once("hoistway: a weight of %u is above what the scheduler takes; its default counts\n", weight);
}

/* The core's number of a group; the lock is held. */
static noinline u32 group_of(struct hw_sched *h, struct blkcg_gq *blkg, u64 now)
{
	struct hw_pd *pd = living(blkg);

	while (pd && !pd->group) {
		/* From the highest that the core does not know downwards. */
		struct hw_pd *above = living(pd->pd.blkg->parent), *next = pd;

		while (above && !above->group) {
			next = above;
			above = living(above->pd.blkg->parent);
		}
		add(h, next, above ? above->group : 0, now);
		if (!next->group)
			return 0;
	}
	return pd ? pd->group : 0;
}

u32 hw_group_of_weighed(struct hw_sched *h, struct bio *bio, u64 now)
{
	struct blkcg_gq *blkg = bio->bi_blkg;

	/* The root has number 0. */
	return blkg && blkg->parent ? group_of(h, blkg, now) : 0;
}

u32 hw_mark_of_group(struct bio *bio)
{
	return bio->bi_blkg ? bio->bi_blkg->blkcg->css.id : 0;
}

bool hw_weighed_may_have_moved(struct hw_sched *h, struct bio *bio)
{
	return READ_ONCE(h->grouped) || (bio->bi_blkg && bio->bi_blkg->parent);
}

u32 hw_group_of_current(struct hw_sched *h, const void **key, u64 now)
{
	struct blkcg *blkcg = css_to_blkcg(task_css(current, io_cgrp_id));

	*key = blkcg;
	return h->traits & HW_HAS_WEIGHTS ? group_of(h, blkg_lookup(blkcg, h->queue), now) : 0;
}

/* --- the policy --------------------------------------------------------------------------------- */

static struct blkcg_policy_data *cpd_alloc(gfp_t gfp)
{
	struct hw_cpd *cpd = kzalloc(sizeof(*cpd), gfp);

	return cpd ? &cpd->cpd : NULL;
}

static void cpd_free(struct blkcg_policy_data *cpd)
{
	kfree(container_of(cpd, struct hw_cpd, cpd));
}

static struct blkg_policy_data *alloc_pd(struct request_queue *q, gfp_t gfp)
{
	struct hw_pd *pd = kzalloc_node(sizeof(*pd), gfp, q->node);
	struct hw_sched *h;
	unsigned long flags;

	if (!pd)
		return NULL;
	spin_lock_irqsave(&queues_lock, flags);
	list_for_each_entry(h, &queues, all)
		if (h->queue == q)
			pd->sched = h;
	spin_unlock_irqrestore(&queues_lock, flags);
	return &pd->pd;
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
static struct blkg_policy_data *pd_alloc(gfp_t gfp, struct request_queue *q, struct blkcg *blkcg)
{
	return alloc_pd(q, gfp);
}
#else
static struct blkg_policy_data *pd_alloc(struct gendisk *disk, struct blkcg *blkcg, gfp_t gfp)
{
	return alloc_pd(disk->queue, gfp);
}
#endif

static void pd_free(struct blkg_policy_data *pd)
{
	kfree(container_of(pd, struct hw_pd, pd));
}

static void pd_offline(struct blkg_policy_data *at)
{
	struct hw_pd *pd = container_of(at, struct hw_pd, pd);
	struct hw_sched *h = pd->sched;
	unsigned long flags;
	u64 runs;

	if (!h)
		return;
	flags = hw_lock(h);
	pd->gone = true;
	if (pd->group)
		CORE(h, hw_group_goes(&h->view, ktime_get_ns(), pd->group));
	runs = hw_after(h);
	hw_unlock(h, flags);
	hw_run(h, runs);
}

static int show_weight(struct seq_file *sf, void *v)
{
	seq_printf(sf, "%u\n", cpd_of(css_to_blkcg(seq_css(sf)))->weight ?: WEIGHT);
	return 0;
}

/* False: its scheduler refuses it. */
static bool apply_weight(struct hw_pd *pd, u32 weight)
{
	struct hw_sched *h = pd->sched;
	unsigned long flags;
	bool done = true;
	u64 runs;

	if (!h || !(h->traits & HW_HAS_WEIGHTS))
		return true;
	flags = hw_lock(h);
	if (pd->group && !pd->gone && !h->dead)
		done = CORE(h, hw_weight(&h->view, ktime_get_ns(), pd->group, weight)) || h->dead;
	runs = hw_after(h);
	hw_unlock(h, flags);
	hw_run(h, runs);
	return done;
}

static bool apply_to_all(struct blkcg *blkcg, u32 weight)
{
	struct blkcg_gq *blkg;
	bool done = true;

	hlist_for_each_entry(blkg, &blkcg->blkg_list, blkcg_node) {
		struct hw_pd *pd = pd_of(blkg);

		if (pd && !apply_weight(pd, weight))
			done = false;
	}
	return done;
}

static int write_weight(struct cgroup_subsys_state *css, struct cftype *file, u64 weight)
{
	struct blkcg *blkcg = css_to_blkcg(css);
	u32 *kept = &cpd_of(blkcg)->weight, before;
	bool done;

	if (weight < 1 || weight > WEIGHT_MOST)
		return -ERANGE;
	spin_lock_irq(&blkcg->lock);
	before = *kept;
	/* First: a core that hears of the group meanwhile takes it from there. On all devices of the group or on none. */
	WRITE_ONCE(*kept, weight);
	done = apply_to_all(blkcg, weight);
	if (!done) {
		WRITE_ONCE(*kept, before);
		apply_to_all(blkcg, before);
	}
	spin_unlock_irq(&blkcg->lock);
	return done ? 0 : -ERANGE;
}

static int set_target(struct hw_pd *pd, const char *text)
{
	struct hw_sched *h = pd ? pd->sched : NULL;
	unsigned long flags;
	u32 group, said = 0;
	u64 now, runs;

	if (!h)
		return -EOPNOTSUPP;
	flags = hw_lock(h);
	now = ktime_get_ns();
	group = group_of(h, pd->pd.blkg, now);
	if (group)
		said = CORE(h, hw_target(&h->view, now, group, text, strlen(text)));
	runs = hw_after(h);
	hw_unlock(h, flags);
	hw_run(h, runs);
	if (said == 1)
		return 0;
	/* No number: the core has failed. */
	return said ? -(int)said : -EIO;
}

static ssize_t write_latency(struct kernfs_open_file *of, char *text, size_t size, loff_t at)
{
	struct blkg_conf_ctx ctx;
	int error = hw_conf_begin(css_to_blkcg(of_css(of)), &policy, text, &ctx);

	if (error)
		return error;
	error = set_target(pd_of(ctx.blkg), ctx.body);
	hw_conf_end(&ctx);
	return error ?: size;
}

static u64 show_target(struct seq_file *sf, struct blkg_policy_data *at, int unused)
{
	struct hw_pd *pd = container_of(at, struct hw_pd, pd);
	struct hw_sched *h = pd->sched;
	char text[48] = "";
	unsigned long flags;
	bool has;

	if (!h || !pd->group || !h->queue->disk)
		return 0;
	flags = hw_lock(h);
	has = CORE(h, hw_target_of(&h->view, pd->group, text, sizeof(text)));
	hw_unlock(h, flags);
	if (has)
		seq_printf(sf, "%u:%u %s\n", h->queue->disk->major, h->queue->disk->first_minor, text);
	return 0;
}

static int show_latency(struct seq_file *sf, void *v)
{
	blkcg_print_blkgs(sf, css_to_blkcg(seq_css(sf)), show_target, &policy, 0, false);
	return 0;
}

static struct cftype files[] = {
	{
		.name = "hoistway.weight",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = show_weight,
		.write_u64 = write_weight,
	},
	{
		.name = "hoistway.latency",
		.flags = CFTYPE_NOT_ON_ROOT,
		.seq_show = show_latency,
		.write = write_latency,
	},
	{ }
};

static struct blkcg_policy policy = {
	.dfl_cftypes = files,
	.cpd_alloc_fn = cpd_alloc,
	.cpd_free_fn = cpd_free,
	.pd_alloc_fn = pd_alloc,
	.pd_offline_fn = pd_offline,
	.pd_free_fn = pd_free,
};

int hw_groups_on(struct hw_sched *h)
{
	int error;

	spin_lock_irq(&queues_lock);
	list_add(&h->all, &queues);
	spin_unlock_irq(&queues_lock);
	error = hw_activate(h->queue, &policy);
	if (error) {
		spin_lock_irq(&queues_lock);
		list_del(&h->all);
		spin_unlock_irq(&queues_lock);
	}
	return error;
}

void hw_groups_off(struct hw_sched *h)
{
	hw_deactivate(h->queue, &policy);
	spin_lock_irq(&queues_lock);
	list_del(&h->all);
	spin_unlock_irq(&queues_lock);
}

int hw_groups_init(void)
{
	return blkcg_policy_register(&policy);
}

void hw_groups_exit(void)
{
	blkcg_policy_unregister(&policy);
}

#else /* without CONFIG_BLK_CGROUP everybody is in the root */

u32 hw_group_of_weighed(struct hw_sched *h, struct bio *bio, u64 now)
{
	return 0;
}

u32 hw_mark_of_group(struct bio *bio)
{
	return 0;
}

bool hw_weighed_may_have_moved(struct hw_sched *h, struct bio *bio)
{
	return false;
}

u32 hw_group_of_current(struct hw_sched *h, const void **key, u64 now)
{
	*key = NULL;
	return 0;
}

int hw_groups_on(struct hw_sched *h)
{
	return 0;
}

void hw_groups_off(struct hw_sched *h)
{
}

int hw_groups_init(void)
{
	return 0;
}

void hw_groups_exit(void)
{
}

#endif

/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What is called otherwise from one version of the kernel to another, and is needed by more than one file here.
 */
#ifndef HOISTWAY_KERNEL_H
#define HOISTWAY_KERNEL_H

#include <linux/blk-cgroup.h>
#include <linux/blk_types.h>
#include <linux/blkdev.h>
#include <linux/cgroup.h>
#include <linux/version.h>

#define SINCE(a, b) (LINUX_VERSION_CODE >= KERNEL_VERSION(a, b, 0))

#if !SINCE(6, 0)
typedef unsigned int blk_opf_t;
#endif
#if SINCE(6, 1)
#include "../../../../block/blk-cgroup.h"
#endif

/* The group of a bio; null: it has none. */
static inline struct cgroup_subsys_state *hoistway_css_of(struct bio *bio)
{
#if SINCE(5, 18)
	return bio_blkcg_css(bio);
#else
	struct blkcg *blkcg = bio_blkcg(bio);

	return blkcg ? &blkcg->css : NULL;
#endif
}

/*
 * A group that was removed lives on for a queue as long as somebody writes for it: schedulers go by its part of the queue.
 * Under RCU.
 */
static inline bool hoistway_is_gone(struct cgroup_subsys_state *css, struct request_queue *queue)
{
	if (css->flags & CSS_ONLINE)
		return false;
#if SINCE(6, 1)
	return !blkg_lookup(css_to_blkcg(css), queue);
#else
	return true;
#endif
}

/* The number of a group, which is the inode number of its folder. */
static inline u64 hoistway_number_of(struct cgroup *cgroup)
{
#if SINCE(5, 5)
	return cgroup_id(cgroup);
#else
	return cgroup->kn->id.ino;
#endif
}

static inline bool hoistway_rotational(struct request_queue *queue)
{
#ifdef blk_queue_rot
	return blk_queue_rot(queue);
#else
	return !blk_queue_nonrot(queue);
#endif
}

#endif

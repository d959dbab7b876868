/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What is called otherwise from one version of Linux to another. */
#ifndef HOISTWAY_COMPAT_H
#define HOISTWAY_COMPAT_H

#include <linux/version.h>
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include "blk-mq.h"

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "hoistway's module is for Linux 6.1 and later"
#endif
#ifndef CONFIG_X86_64
#error "hoistway's module is for x86-64"
#endif
#ifdef CONFIG_PREEMPT_RT
#error "hoistway's module is not for PREEMPT_RT: it rests on spin locks that switch interrupts off"
#endif

/* A request has been prepared for the elevator, so that rq->elv is the elevator's. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
#define HW_RQF_OURS RQF_ELVPRIV
#else
#define HW_RQF_OURS RQF_USE_SCHED
#endif

/* The last argument of insert_requests: bool at_head, later flags. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
typedef bool hw_insert_t;
#define HW_AT_HEAD(flags) (flags)
#else
typedef blk_insert_t hw_insert_t;
#define HW_AT_HEAD(flags) (!!((flags) & BLK_MQ_INSERT_AT_HEAD))
#endif

/* The device's cache and nature: bits of the queue, later of its limits. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define hw_write_cache(q) test_bit(QUEUE_FLAG_WC, &(q)->queue_flags)
#define hw_fua(q) test_bit(QUEUE_FLAG_FUA, &(q)->queue_flags)
#else
#define hw_write_cache(q) blk_queue_write_cache(q)
#define hw_fua(q) (!!((q)->limits.features & BLK_FEAT_FUA))
#endif

/* A policy of groups is switched on for a queue, later for its disk. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
#define hw_activate(q, policy) blkcg_activate_policy(q, policy)
#define hw_deactivate(q, policy) blkcg_deactivate_policy(q, policy)
#else
#define hw_activate(q, policy) blkcg_activate_policy((q)->disk, policy)
#define hw_deactivate(q, policy) blkcg_deactivate_policy((q)->disk, policy)
#endif

/* A line about one device, with the queue's lock held from begin to end. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
#define hw_conf_begin(blkcg, policy, text, ctx) blkg_conf_prep(blkcg, policy, text, ctx)
#define hw_conf_end(ctx) blkg_conf_finish(ctx)
#else
#define hw_conf_begin(blkcg, policy, text, ctx)                   \
	({                                                        \
		int hw_error;                                     \
		blkg_conf_init(ctx, text);                        \
		hw_error = blkg_conf_prep(blkcg, policy, ctx);    \
		if (hw_error)                                     \
			blkg_conf_exit(ctx);                      \
		hw_error;                                         \
	})
#define hw_conf_end(ctx) blkg_conf_exit(ctx)
#endif

/* Write-back throttling: of a queue, later of its disk, with a flag of the elevator. The header is not of an interface. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
void wbt_disable_default(struct request_queue *q);
void wbt_enable_default(struct request_queue *q);
#define hw_wbt_off(q, eq) wbt_disable_default(q)
#define hw_wbt_on(q, eq) wbt_enable_default(q)
#else
void wbt_disable_default(struct gendisk *disk);
void wbt_enable_default(struct gendisk *disk);
#define hw_wbt_off(q, eq)                                          \
	do {                                                       \
		set_bit(ELEVATOR_FLAG_DISABLE_WBT, &(eq)->flags);  \
		wbt_disable_default((q)->disk);                    \
	} while (0)
#define hw_wbt_on(q, eq)                                           \
	do {                                                       \
		clear_bit(ELEVATOR_FLAG_DISABLE_WBT, &(eq)->flags); \
		wbt_enable_default((q)->disk);                     \
	} while (0)
#endif

/* One timer by the monotonic clock. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define hw_timer_setup(timer, call)                                    \
	do {                                                           \
		hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS); \
		(timer)->function = (call);                            \
	} while (0)
#else
#define hw_timer_setup(timer, call) hrtimer_setup(timer, call, CLOCK_MONOTONIC, HRTIMER_MODE_ABS)
#endif

#endif

/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The Rust core as C sees it (crates/hoistway-kernel/src/border.rs, where each function is described).
 *
 * A function of a queue is called by its name here, hw_NAME, which is a few instructions of hoistway_guard.S around the
 * core's hw_core_NAME: where the core panics, hw_NAME answers 0.
 */
#ifndef HOISTWAY_CORE_H
#define HOISTWAY_CORE_H

#include <linux/build_bug.h>
#include <linux/types.h>

/* View of crates/hoistway-kernel/src/view.rs. */
struct hw_view {
	u64 stack, kept[5];	/* first: assembly writes them */
	void *core;
	u64 next_timer;
	u64 runs;
	u64 fresh;
	u32 waiting;
	u32 max_sectors;
	u32 limits_reads, unused;
};

struct hw_setup {
	u64 capacity, now, tick_ns;
	u32 queue_depth, nr_requests, slots, max_sectors, max_segments;
	u16 hw_queues;
	u8 rotational, write_cache, fua, scsi, plain_tags;
};

struct hw_io {
	u64 start, alloc, began, issued;
	u32 sectors, segments, proc, group, cpu;
	u16 flags, prio, queue;
	u8 op, sync;
};

struct hw_found {
	u64 id;
	u32 open;
	u8 again, closed;
};

struct hw_size {
	u64 start;
	u32 sectors, segments;
};

static_assert(sizeof(struct hw_view) == 96);
static_assert(sizeof(struct hw_setup) == 56);
static_assert(sizeof(struct hw_io) == 64);
static_assert(sizeof(struct hw_found) == 16);
static_assert(sizeof(struct hw_size) == 16);

/* Which merges a request is open to. */
enum { HW_CLOSED, HW_TO_BIOS, HW_OPEN };
/* Beside it: hw_arrive has taken it in, and no hw_insert follows. */
#define HW_INSERTED (1U << 8)
/* Its argument `how`: it goes first; nothing waits that it could join. */
enum { HW_HEAD = 1, HW_ALONE = 2 };
/* Bits of hw_core_traits. */
enum { HW_LIMITS_DEPTH = 1, HW_REPLACES_WBT = 2, HW_HAS_WEIGHTS = 4, HW_SEARCHES = 8 };

/* The registry: these cannot panic. */
size_t hw_core_count(void);
bool hw_core_name(size_t n, char *to, size_t room);
bool hw_core_tunable(size_t n, size_t t, char *to, size_t room);
u32 hw_core_depth_min(size_t n, u32 places);
u32 hw_core_traits(size_t n);

/* May sleep. */
bool hw_new(struct hw_view *view, size_t n, const struct hw_setup *setup);
bool hw_end(struct hw_view *view);

/* Under the queue's lock. */
u64 hw_arrive(struct hw_view *view, u64 now, const struct hw_io *io, u32 how, void *rq, u32 *open);
bool hw_insert(struct hw_view *view, u64 now, u64 id, bool head);
void *hw_dispatch(struct hw_view *view, u64 now, u16 queue, struct hw_found *found);
void *hw_closed(struct hw_view *view);
bool hw_complete(struct hw_view *view, u64 now, u64 id);
bool hw_bypassed(struct hw_view *view, u64 now, const struct hw_io *io, bool sent);
bool hw_forget(struct hw_view *view, u64 id);
bool hw_unmergeable(struct hw_view *view, u64 id);
bool hw_requeue(struct hw_view *view, u64 now, u64 id);
/* Bits: hw_flush is to be called; who asks matters; all that comes may join what waits. */
enum { HW_FLUSHES = 1, HW_PROCS = 2, HW_OPENS_ALL = 4 };
u32 hw_wants(struct hw_view *view);
bool hw_flush(struct hw_view *view, u64 now, bool began);
bool hw_may_merge(struct hw_view *view, u64 now, const struct hw_io *io, u64 into);
void *hw_find_merge(struct hw_view *view, u64 now, const struct hw_io *io, bool *back);
void *hw_neighbour(struct hw_view *view, u64 id, const struct hw_size *size, bool back);
bool hw_merged_bio(struct hw_view *view, u64 now, u64 id, const struct hw_size *size, bool back);
bool hw_merged(struct hw_view *view, u64 now, u64 kept, u64 gone, const struct hw_size sizes[2], bool waited);
u32 hw_proc(struct hw_view *view, u16 prio);
bool hw_proc_is(struct hw_view *view, u64 now, u32 proc, u16 prio, u32 group);
bool hw_proc_exits(struct hw_view *view, u64 now, u32 proc);
u32 hw_group(struct hw_view *view, u64 now, u32 parent);
bool hw_group_goes(struct hw_view *view, u64 now, u32 group);
bool hw_weight(struct hw_view *view, u64 now, u32 group, u64 weight);
/* 1, or the number of the error. */
u32 hw_target(struct hw_view *view, u64 now, u32 group, const char *text, size_t len);
bool hw_target_of(struct hw_view *view, u32 group, char *to, size_t room);
u32 hw_depth(struct hw_view *view, u64 now, const struct hw_io *io);
bool hw_timer(struct hw_view *view, u64 now);
bool hw_value(struct hw_view *view, size_t t, u64 *value);
bool hw_set(struct hw_view *view, u64 now, size_t t, u64 value);
bool hw_resized(struct hw_view *view, u64 now, u32 nr_requests);
bool hw_sizes(struct hw_view *view, u32 (*out)[4]);
bool hw_break(struct hw_view *view, bool now);

/* Called by the core. */
void *hw_alloc(size_t size, size_t align);
void hw_free(void *at);
void __noreturn hw_panic(const char *text, size_t len);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A request and a bio of the kernel: what of ours they carry, and what the core is told of them. */
#ifndef HOISTWAY_REQUEST_H
#define HOISTWAY_REQUEST_H

#include <linux/blk-mq.h>
#include "hoistway.h"

/*
 * What a request carries, where it is the elevator's. priv[0]: the core's handle. priv[1]: the process, whether it waits with
 * us, whether the device has given it back, whether the kernel's hash may know it.
 */
#define WAITS BIT_ULL(32)
#define GIVEN_BACK BIT_ULL(33)
#define OPEN BIT_ULL(34)

static inline bool is_ours(struct request *rq)
{
	return rq->rq_flags & HW_RQF_OURS;
}

static inline u64 handle(struct request *rq)
{
	return (u64)rq->elv.priv[0];
}

static inline void set_handle(struct request *rq, u64 id)
{
	rq->elv.priv[0] = (void *)id;
}

static inline u32 proc_of(struct request *rq)
{
	return (u32)(u64)rq->elv.priv[1];
}

static inline bool has(struct request *rq, u64 bit)
{
	return (u64)rq->elv.priv[1] & bit;
}

static inline void put(struct request *rq, u64 bit, bool on)
{
	u64 word = (u64)rq->elv.priv[1] & ~bit;

	rq->elv.priv[1] = (void *)(on ? word | bit : word);
}

/* A discard of a drive that takes many ranges in one: what joins it need not lie beside it. */
static inline bool has_ranges(struct request *rq)
{
	return req_op(rq) == REQ_OP_DISCARD && queue_max_discard_segments(rq->q) > 1;
}

static inline u8 op_of(blk_opf_t opf)
{
	switch (opf & REQ_OP_MASK) {
	case REQ_OP_READ:
		return 0;
	case REQ_OP_DISCARD:
	case REQ_OP_SECURE_ERASE:
		return 2;
	case REQ_OP_FLUSH:
		return 3;
	case REQ_OP_WRITE_ZEROES:
		return 4;
	}
	return 1;
}

/* The bits of Flags, crates/hoistway/src/request.rs. */
static inline u16 flags_of(blk_opf_t opf)
{
	/* Most reads have none. */
	if (!(opf & (REQ_SYNC | REQ_META | REQ_PRIO | REQ_IDLE | REQ_RAHEAD | REQ_PREFLUSH | REQ_FUA | REQ_NOMERGE |
		     REQ_BACKGROUND | REQ_SWAP)))
		return 0;
	return (opf & REQ_SYNC ? 1 << 0 : 0) | (opf & REQ_META ? 1 << 1 : 0) | (opf & REQ_PRIO ? 1 << 2 : 0) |
	       (opf & REQ_IDLE ? 1 << 4 : 0) | (opf & REQ_RAHEAD ? 1 << 5 : 0) | (opf & REQ_PREFLUSH ? 1 << 8 : 0) |
	       (opf & REQ_FUA ? 1 << 9 : 0) | (opf & REQ_NOMERGE ? 1 << 10 : 0) |
	       (opf & REQ_BACKGROUND ? 1 << 11 : 0) | (opf & REQ_SWAP ? 1 << 12 : 0);
}

/* A bio's group, good for nothing but to see whether it is another. */
static inline const void *group_key(struct bio *bio)
{
#ifdef CONFIG_BLK_CGROUP
	return bio->bi_blkg;
#else
	return NULL;
#endif
}

static inline void io_of_bio(struct hw_sched *h, struct bio *bio, struct hw_io *io, u64 now)
{
	*io = (struct hw_io) {
		.start = bio->bi_iter.bi_sector,
		.sectors = bio_sectors(bio),
		.segments = 1,
		.proc = h->bio_proc,
		.group = hw_group_of_bio(h, bio, now),
		.cpu = raw_smp_processor_id(),
		.flags = flags_of(bio->bi_opf),
		.prio = bio_prio(bio),
		.op = op_of(bio->bi_opf),
		.sync = op_is_sync(bio->bi_opf),
	};
}

/* All but who asks, for whom; member by member, for that of a whole struct is cleared first. */
static inline void io_of_request(struct request *rq, struct hw_io *io, u64 now)
{
	u64 start = rq->start_time_ns ?: now;

	io->start = blk_rq_pos(rq);
	io->alloc = start;
	io->began = start;
	io->issued = rq->io_start_time_ns;
	io->sectors = blk_rq_sectors(rq);
	io->segments = rq->nr_phys_segments;
	io->proc = 0;
	io->group = 0;
	io->cpu = rq->mq_ctx->cpu;
	io->flags = flags_of(rq->cmd_flags);
	io->prio = req_get_ioprio(rq);
	io->queue = rq->mq_hctx->queue_num;
	io->op = op_of(rq->cmd_flags);
	io->sync = op_is_sync(rq->cmd_flags);
#ifdef CONFIG_BLK_RQ_ALLOC_TIME
	if (rq->alloc_time_ns)
		io->alloc = rq->alloc_time_ns;
#endif
}

static inline struct hw_size size_of(struct request *rq)
{
	return (struct hw_size) { blk_rq_pos(rq), blk_rq_sectors(rq), rq->nr_phys_segments };
}

#endif

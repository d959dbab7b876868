// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The kernel's flush commands, as lines of a recording: "flush" with the result "began" or "ended". The kernel's own schedulers
 * hear nothing of them; ours inside the kernel do, by the same two tracepoints (linux/module/hoistway_flush.c). The recording of
 * a controller has no such line.
 */
#include <linux/blk-mq.h>
#include "hoistway.h"
#include "hoistway_record.h"

#if defined(CONFIG_TRACEPOINTS) && SINCE(6, 1)
#include <trace/events/block.h>

static void tell(struct request *rq, const char *what)
{
	if (req_op(rq) == REQ_OP_FLUSH && rq->rq_flags & RQF_FLUSH_SEQ && !hoistway_control_name() &&
	    hoistway_recorded(rq->q))
		hoistway_note(&(struct hoistway_line) { .event = "flush", .result = what });
}

static void on_issue(void *data, struct request *rq)
{
	tell(rq, "began");
}

static void on_complete(void *data, struct request *rq, blk_status_t error, unsigned int bytes)
{
	tell(rq, "ended");
}

int __init hoistway_flush_watch(void)
{
	return register_trace_block_rq_issue(on_issue, NULL) ?: register_trace_block_rq_complete(on_complete, NULL);
}
#else
int __init hoistway_flush_watch(void)
{
	return 0;
}
#endif

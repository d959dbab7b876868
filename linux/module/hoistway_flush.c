// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Flush commands, of which no elevator hears: two tracepoints of the kernel tell when one goes to the device and when it is
 * over. They are looked up by name, for modules are not given their symbols.
 */
#include <linux/tracepoint.h>
#include "hoistway.h"
#include "blk-mq-sched.h"

static struct tracepoint *at_issue, *at_completion;

/* A command of the kernel's flush machine, on a queue of ours. Such a queue keeps its elevator while the command is out. */
static void tell(struct request *rq, bool began)
{
	struct elevator_queue *eq;
	struct hw_sched *h;
	unsigned long flags;
	u64 runs;

	if (req_op(rq) != REQ_OP_FLUSH || !(rq->rq_flags & RQF_FLUSH_SEQ))
		return;
	eq = READ_ONCE(rq->q->elevator);
	if (!eq || hw_number(eq->type) == SIZE_MAX)
		return;
	h = eq->elevator_data;
	flags = hw_lock(h);
	CORE(h, hw_flush(&h->view, ktime_get_ns(), began));
	runs = hw_after(h);
	hw_unlock(h, flags);
	hw_run(h, runs);
}

static void issued(void *unused, struct request *rq)
{
	tell(rq, true);
}

static void completed(void *unused, struct request *rq, blk_status_t error, unsigned int bytes)
{
	tell(rq, false);
}

static void look(struct tracepoint *tp, void *unused)
{
	if (!strcmp(tp->name, "block_rq_issue"))
		at_issue = tp;
	else if (!strcmp(tp->name, "block_rq_complete"))
		at_completion = tp;
}

void hw_flush_init(void)
{
	for_each_kernel_tracepoint(look, NULL);
	if (at_issue && at_completion && !tracepoint_probe_register(at_completion, completed, NULL)) {
		if (!tracepoint_probe_register(at_issue, issued, NULL))
			return;
		tracepoint_probe_unregister(at_completion, completed, NULL);
	}
	at_issue = NULL;
	pr_warn("hoistway: this kernel does not tell of flush commands: schedulers do not hear of them\n");
}

void hw_flush_exit(void)
{
	if (!at_issue)
		return;
	tracepoint_probe_unregister(at_issue, issued, NULL);
	tracepoint_probe_unregister(at_completion, completed, NULL);
	tracepoint_synchronize_unregister();
}

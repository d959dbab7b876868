/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the recording of a scheduler's calls (hoistway_record.c) and that of a controller's (hoistway_control.c) share.
 */
#ifndef HOISTWAY_RECORD_H
#define HOISTWAY_RECORD_H

#include "hoistway_kernel.h"

struct request_queue;

/* A line of a recording: what is 0 or null is left out, numbers begin with 1. */
struct hoistway_line {
	const char *event;
	unsigned long bio;	/* the column "request" */
	unsigned long other;	/* the column "ctx" */
	sector_t sector;
	unsigned int sectors;
	blk_opf_t opf;
	struct bio *of;		/* its group and its operation are told */
	const char *result;
	unsigned int more;	/* the column "segments" */
};

/* Is this queue recorded at the moment? */
bool hoistway_recorded(struct request_queue *q);
void hoistway_note(const struct hoistway_line *line);
/* What could not be recorded makes the whole recording void. */
void hoistway_lost(int error);

/* The controller of that name is watched from here on, on this queue; it need not be there yet. "": none is. */
int hoistway_control_attach(struct request_queue *q, const char *name);
/* A setting was written: a controller may have come into being. */
void hoistway_control_look(void);
/* Numbers start anew. */
void hoistway_control_begin(void);
/* The name of what is watched; null: nothing. */
const char *hoistway_control_name(void);
/* Is a timer with this function one of the controller's? */
bool hoistway_control_timer(const char *function);

/* Flush commands are noted from here on (hoistway_flushes.c). */
int hoistway_flush_watch(void);

#endif

/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the kernel side (hoistway_drive.c), the host side (hoistway_host.c) and the program outside
 * (crates/hoistway-machine/src/linux/drive.rs) agree on. Numbers are in the byte order of the machine: both ends run on it.
 */
#ifndef HOISTWAY_H
#define HOISTWAY_H

#define HOISTWAY_VERSION 1

/* Messages of the guest, each a struct hoistway_head; those that want an answer block until it is there. */
#define HOISTWAY_HELLO 1	/* count: the version; answered by a struct hoistway_info */
#define HOISTWAY_SUBMIT 2	/* followed by `count` commands; answered by a struct hoistway_answer without tags */
#define HOISTWAY_POLL 3		/* what is done by `now`? Answered by a struct hoistway_answer and its tags */
#define HOISTWAY_BYE 4		/* the guest ends; no answer */

#define HOISTWAY_READ 0
#define HOISTWAY_WRITE 1
#define HOISTWAY_FLUSH 2
#define HOISTWAY_DISCARD 3

#define HOISTWAY_FUA (1u << 0)
#define HOISTWAY_PREFLUSH (1u << 1)
#define HOISTWAY_SYNC (1u << 2)
#define HOISTWAY_META (1u << 3)
#define HOISTWAY_PRIO (1u << 4)
#define HOISTWAY_READ_AHEAD (1u << 5)
#define HOISTWAY_IDLE (1u << 6)
#define HOISTWAY_BACKGROUND (1u << 7)

/* Nothing will happen unless something is submitted. */
#define HOISTWAY_NEVER (~0ull)

/* Commands in one message, and completions in one answer, at most. */
#define HOISTWAY_BATCH 128

struct hoistway_head {
	unsigned int kind;
	unsigned int count;
	unsigned long long now;		/* ns of virtual time */
};

struct hoistway_command {
	unsigned int tag;
	unsigned short op;
	unsigned short prio;		/* I/O priority as in ioprio_set(2) */
	unsigned int flags;
	unsigned int bytes;
	unsigned long long sector;	/* of 512 bytes */
	unsigned long long group;	/* number of the cgroup; 0: unknown */
};

struct hoistway_answer {
	unsigned long long next;	/* when to poll; HOISTWAY_NEVER */
	unsigned int count;		/* tags that follow */
	unsigned int unused;
};

/* The drive as the block layer is to see it. */
struct hoistway_info {
	unsigned long long magic;
	unsigned long long seed;
	unsigned long long capacity;	/* sectors of 512 bytes */
	unsigned long long data_limit;	/* bytes of data that are kept */
	unsigned int logical;		/* block sizes in bytes */
	unsigned int physical;
	unsigned int depth;
	unsigned int hw_queues;
	unsigned int max_sectors;
	unsigned int max_segments;
	unsigned int max_discard_sectors;	/* 0: no discard */
	unsigned int discard_granularity;	/* bytes */
	unsigned char rotational;
	unsigned char write_cache;
	unsigned char fua;
	unsigned char scsi;		/* behind the SCSI layer: a place in the drive is taken before the scheduler is asked */
	unsigned char tags_round_robin;
	unsigned char flush_alone;	/* a flush is taken when nothing else is under way, and nothing beside it */
	unsigned char discard_alone;
	unsigned char unused;
};

#define HOISTWAY_MAGIC 0x7961777473696f68ull	/* "hoistway" */

/* The host side. Results below 0 are errors of the host (-errno). */
const struct hoistway_info *hoistway_host_hello(void);	/* null: there is no drive */
unsigned long long hoistway_host_submit(unsigned long long now, const struct hoistway_command *commands,
					unsigned int count);
unsigned long long hoistway_host_poll(unsigned long long now, unsigned int *tags, unsigned int *count);
void hoistway_host_bye(unsigned long long now);
/* The data of the drive. `at` in bytes. */
void hoistway_host_read(unsigned long long at, void *to, unsigned long len);
int hoistway_host_write(unsigned long long at, const void *from, unsigned long len);
void hoistway_host_discard(unsigned long long at, unsigned long long len);
/* Random bytes for the kernel, of the seed alone. */
long hoistway_host_random(void *to, unsigned long len);
/* A file of the host that is written from its beginning. */
int hoistway_host_create(const char *path);
long hoistway_host_append(int file, const void *from, unsigned long len);

#endif

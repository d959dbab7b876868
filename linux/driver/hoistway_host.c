// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The host side of the drive: system calls of the host, made by the process that the kernel is.
 *
 * The drive's model is a program outside, at the other end of the socket that is file descriptor 0. The data stays
 * here: a page of 4 KiB is kept from the moment on at which something else than zeroes is written to it, in a
 * sparse file in memory; a map of bits tells which pages are kept.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "hoistway.h"

#define SOCKET 0
#define PAGE 4096ull
#define BITS (8 * sizeof(unsigned long))

static struct hoistway_info info;
static enum { UNKNOWN, PRESENT, ABSENT } state;
/* Pages that are kept. */
static unsigned long *kept;
static unsigned long long kept_pages;
static int store = -1;
static unsigned long long random_state;

/* The program outside is gone: nobody is left who would want to know how this run goes on. */
static void gone(void)
{
	/* By SIGTERM the kernel ends its processes and itself. */
	static const char last[] = "hoistway: the drive is gone\n";

	if (write(2, last, sizeof(last) - 1) < 0)
		_exit(1);
	kill(getpid(), SIGTERM);
	_exit(1);
}

static void send_all(const void *from, unsigned long len)
{
	const char *at = from;

	while (len) {
		long n = send(SOCKET, at, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			gone();
		at += n;
		len -= n;
	}
}

static void receive_all(void *to, unsigned long len)
{
	char *at = to;

	while (len) {
		long n = recv(SOCKET, at, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			gone();
		at += n;
		len -= n;
	}
}

static void send_head(unsigned int kind, unsigned int count, unsigned long long now)
{
	struct hoistway_head head = { kind, count, now };

	send_all(&head, sizeof(head));
}

static int prepare_store(void)
{
	unsigned long long pages = (info.capacity * 512 + PAGE - 1) / PAGE;
	unsigned long bytes = (pages / BITS + 1) * sizeof(unsigned long);

	/* Untouched parts of either take no memory. */
	kept = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (kept == MAP_FAILED)
		return 0;
	store = syscall(SYS_memfd_create, "hoistway-data", 1 /* MFD_CLOEXEC */);
	return store >= 0 && ftruncate(store, pages * PAGE) == 0;
}

const struct hoistway_info *hoistway_host_hello(void)
{
	struct rlimit none = { 0, 0 };
	struct stat what;

	if (state == UNKNOWN) {
		state = ABSENT;
		if (fstat(SOCKET, &what) < 0 || !S_ISSOCK(what.st_mode))
			return NULL;
		/* No core files of a kernel that panics; an end like the one of whoever started this. */
		setrlimit(RLIMIT_CORE, &none);
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		send_head(HOISTWAY_HELLO, HOISTWAY_VERSION, 0);
		receive_all(&info, sizeof(info));
		if (info.magic != HOISTWAY_MAGIC || !prepare_store())
			gone();
		random_state = info.seed;
		state = PRESENT;
	}
	return state == PRESENT ? &info : NULL;
}

unsigned long long hoistway_host_submit(unsigned long long now, const struct hoistway_command *commands,
					unsigned int count)
{
	/* One at a time: interrupts are off. Too much for a kernel's stack. */
	static struct {
		struct hoistway_head head;
		struct hoistway_command commands[HOISTWAY_BATCH];
	} message;
	struct hoistway_answer answer;

	message.head.kind = HOISTWAY_SUBMIT;
	message.head.count = count;
	message.head.now = now;
	memcpy(message.commands, commands, count * sizeof(*commands));
	send_all(&message, sizeof(message.head) + count * sizeof(*commands));
	receive_all(&answer, sizeof(answer));
	return answer.next;
}

unsigned long long hoistway_host_poll(unsigned long long now, unsigned int *tags, unsigned int *count)
{
	struct hoistway_answer answer;

	send_head(HOISTWAY_POLL, 0, now);
	receive_all(&answer, sizeof(answer));
	if (answer.count > HOISTWAY_BATCH)
		gone();
	receive_all(tags, answer.count * sizeof(*tags));
	*count = answer.count;
	return answer.next;
}

void hoistway_host_bye(unsigned long long now)
{
	send_head(HOISTWAY_BYE, 0, now);
}

static int is_kept(unsigned long long page)
{
	return kept[page / BITS] >> (page % BITS) & 1;
}

/* Data of the block layer comes in sectors, aligned to 4 bytes at least. */
static int all_zero(const void *from, unsigned long len)
{
	const unsigned int *at = from, *end = at + len / sizeof(*at);

	while (at < end)
		if (*at++)
			return 0;
	return 1;
}

/* Bytes from `at` to the end of its page, at most `len`. */
static unsigned long piece(unsigned long long at, unsigned long len)
{
	unsigned long left = PAGE - at % PAGE;

	return left < len ? left : len;
}

void hoistway_host_read(unsigned long long at, void *to, unsigned long len)
{
	while (len) {
		unsigned long n = piece(at, len);

		if (!is_kept(at / PAGE))
			memset(to, 0, n);
		else if (pread(store, to, n, at) != (long)n)
			gone();
		at += n;
		to = (char *)to + n;
		len -= n;
	}
}

int hoistway_host_write(unsigned long long at, const void *from, unsigned long len)
{
	while (len) {
		unsigned long n = piece(at, len);
		unsigned long long page = at / PAGE;

		if (!is_kept(page) && !all_zero(from, n)) {
			if ((kept_pages + 1) * PAGE > info.data_limit)
				return -ENOSPC;
			kept[page / BITS] |= 1ul << (page % BITS);
			kept_pages++;
		}
		if (is_kept(page) && pwrite(store, from, n, at) != (long)n)
			return -ENOSPC;
		at += n;
		from = (const char *)from + n;
		len -= n;
	}
	return 0;
}

void hoistway_host_discard(unsigned long long at, unsigned long long len)
{
	/* Whole pages only; the rest keeps what it was. */
	unsigned long long page = (at + PAGE - 1) / PAGE, end = (at + len) / PAGE;

	while (page < end) {
		if (page % BITS == 0 && end - page >= BITS && !kept[page / BITS]) {
			page += BITS;
			continue;
		}
		if (is_kept(page)) {
			kept[page / BITS] &= ~(1ul << (page % BITS));
			kept_pages--;
			/* What is written to a part of it later finds zeroes in the rest. */
			if (fallocate(store, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page * PAGE, PAGE) < 0)
				gone();
		}
		page++;
	}
}

/* splitmix64 (Steele, Lea, Flood 2014). */
long hoistway_host_random(void *to, unsigned long len)
{
	unsigned char *at = to;
	unsigned long left;

	if (!hoistway_host_hello())
		return syscall(SYS_getrandom, to, len, 0);
	for (left = len; left;) {
		unsigned long long z = random_state += 0x9e3779b97f4a7c15ull;
		unsigned long n = left < 8 ? left : 8;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
		z = (z ^ z >> 27) * 0x94d049bb133111ebull;
		z ^= z >> 31;
		memcpy(at, &z, n);
		at += n;
		left -= n;
	}
	return len;
}

int hoistway_host_create(const char *path)
{
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	return file < 0 ? -errno : file;
}

long hoistway_host_append(int file, const void *from, unsigned long len)
{
	const char *at = from;
	unsigned long left = len;

	while (left) {
		long n = write(file, at, left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
		left -= n;
	}
	return len;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A test of the matrix as a workload: benchmarks/counts/matrix.py writes what is special to the test.
 *
 * Each operation is made in a situation of its own, a copy of the test's. All copies are set up before the first
 * operation, so that nothing that an operation frees becomes part of another's. A process has one thread, unless the
 * test is of two: so two processes set up all copies themselves. For two threads a third one does, on another CPU, so
 * that nothing but their calls is made on theirs. A copy has a range of descriptors of its own, where one that is
 * closed stays so; ranges begin at all eight places of a line of the table in turn. When it is a copy's turn the third
 * thread has taken all lower ones: what open() gives then is a neighbour of the copy's others. Copies are not
 * undone, as their objects would come back as others'. Tasks wait in user mode for each other, and for a process that
 * gives out the copies, at a pace that leaves some when the agent has begun to record. Past the last one they count no
 * more, which the agent reports.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <unistd.h>

#define COPIES 400
#define PACE_US 600
#define FIRST_FD 64 /* there are fewer of others */
#define FDS 57
#define FILES (FIRST_FD + COPIES * FDS)
#define PAGE 4096
#define SLOTS 8
#define SLOT_BYTES (2ul << 20)
#define SLOT_BASE 0x100000000000ul

char *testcase_description = "two calls that commute, in a situation of their own each time";

/* How many copies are set up, and may be used, and how many calls A and B were made; each on a pair of lines of its own. */
static struct progress {
	_Alignas(128) atomic_ulong made;
	_Alignas(128) atomic_ulong given;
	_Alignas(128) atomic_ulong a;
	_Alignas(128) atomic_ulong b;
	_Alignas(128) atomic_ulong step; /* of setting up, by two processes in turn */
} *progress;

static char names[2][COPIES][2][24]; /* that A and B are given */
static int sockets[2];
static struct stat status[2];
static __thread char page[PAGE];
static __thread sigjmp_buf after_fault;

static void faulted(int signal)
{
	siglongjmp(after_fault, signal);
}

static inline void *slot(unsigned long copy, int number)
{
	return (void *)(SLOT_BASE + (copy * SLOTS + number) * SLOT_BYTES);
}

static char *name_in(char *to, unsigned long copy, const char *name)
{
	sprintf(to, "d%lu/%s", copy, name);
	return to;
}

static int must(int result)
{
	if (result < 0) {
		fprintf(stderr, "a situation cannot be set up: %m\n");
		_exit(1);
	}
	return result;
}

/* A slot's page table stays in a test (docs/explanation/commutativity.md): a page of it is always there. */
static void keep_page_table(char *slot)
{
	char *kept = mmap(slot + SLOT_BYTES / 2, PAGE, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);

	if (kept == MAP_FAILED)
		must(-1);
	*kept = 1;
}

static void give(int fd)
{
	char rights[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec one = { "", 1 };
	struct msghdr message = {
		.msg_iov = &one, .msg_iovlen = 1, .msg_control = rights, .msg_controllen = sizeof(rights),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(int));
	must(sendmsg(sockets[0], &message, 0));
}

static int receive(void)
{
	char rights[CMSG_SPACE(sizeof(int))] = { 0 }, byte;
	struct iovec one = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &one, .msg_iovlen = 1, .msg_control = rights, .msg_controllen = sizeof(rights),
	};
	int fd;

	must(recvmsg(sockets[1], &message, 0));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	return fd;
}

/* What the test calls `number`. */
static inline int fd_of(unsigned long copy, int number)
{
	return FIRST_FD + copy * FDS + number;
}

static void move(int from, int to)
{
	must(dup2(must(from), to));
	close(from);
}

static void take_lower(int than)
{
	int fd;

	while ((fd = must(dup(sockets[0]))) < than)
		;
	close(fd);
}

static void set_up(int process, unsigned long copy);

static void turn(unsigned long step)
{
	while (progress->step < step)
		__builtin_ia32_pause();
}

static void run_elsewhere(void)
{
	cpu_set_t others;

	CPU_ZERO(&others);
	CPU_SET(2, &others);
	CPU_SET(3, &others);
	must(sched_setaffinity(0, sizeof(others), &others));
}

static void set_up_all(int process)
{
	for (unsigned long copy = 0; copy < COPIES; copy++)
		set_up(process, copy);
	if (!process)
		progress->made = COPIES;
}

static void *set_up_for_threads(void *unused)
{
	run_elsewhere();
	for (unsigned long copy = 0; copy < COPIES; copy++)
		set_up(0, copy);
	for (unsigned long copy = 0; copy < COPIES; copy++) {
		while (progress->b < copy)
			usleep(100);
		take_lower(fd_of(copy, 3));
		progress->made = copy + 1;
	}
	return unused;
}

static void start_set_up(void)
{
	pthread_t thread;

	must(-pthread_create(&thread, NULL, set_up_for_threads, NULL));
}

static void give_out_copies(void)
{
	run_elsewhere();
	for (unsigned long copy = 0; copy < COPIES; copy++) {
		while (progress->made <= copy || progress->b < copy)
			usleep(100);
		must(adjtimex(&(struct timex){ .modes = ADJ_SETOFFSET, .time.tv_sec = 1 }));
		usleep(PACE_US);
		progress->given = copy + 1;
	}
	for (;;)
		pause();
}

void testcase_prepare(unsigned long nr_tasks)
{
	const struct sigaction act = { .sa_handler = faulted, .sa_flags = SA_NODEFER };
	const struct rlimit most = { FILES, FILES };

	(void)nr_tasks;
	sigaction(SIGSEGV, &act, NULL);
	sigaction(SIGBUS, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
	must(setrlimit(RLIMIT_NOFILE, &most));
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1,
			0);
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	must(dup2(sockets[0], FILES - 1)); /* or the table would grow in an operation */
	if (!must(fork())) {
		must(prctl(PR_SET_PDEATHSIG, SIGKILL));
		give_out_copies();
	}
}

static void prepare_task(int value)
{
	memset(page, value, PAGE);
	memset(status, 0, sizeof(status));
}

#define OPERATIONS(WAITS_FOR, MADE, CALL)                                        \
	for (unsigned long copy = 0;; copy++) {                                  \
		while (copy == COPIES || WAITS_FOR)                              \
			__builtin_ia32_pause();                                  \
		CALL;                                                            \
		progress->MADE = copy + 1;                                       \
		++*iterations;                                                   \
	}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A test of the matrix as a workload: benchmarks/matrix.py writes what is special to the test.
 *
 * Each operation is made in a situation of its own, a copy of the test's, which is set up by a thread on another CPU,
 * not recorded: so nothing but the call is done on the CPU of a task. Copies are not undone, as their objects would
 * come back as others'. Tasks wait for each other in user mode. Past the last copy they only count.
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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPIES 6000
#define FILES (COPIES * 16)
#define FDS 64
#define PAGE 4096
#define SLOTS 8
#define SLOT_BYTES (2ul << 20)
#define SLOT_BASE 0x100000000000ul

char *testcase_description = "two calls that commute, in a situation of their own each time";

/* How many copies are ready, and how many calls A and B were made; each on a pair of lines of its own. */
static struct progress {
	_Alignas(128) atomic_ulong ready;
	_Alignas(128) atomic_ulong a;
	_Alignas(128) atomic_ulong b;
	_Alignas(128) atomic_ulong step; /* of setting up, by two processes in turn */
} *progress;

static int fds[2][COPIES][FDS]; /* by process, copy, and the number that the test has for it; -1: it is not open */
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

static void set_up(int process, unsigned long copy);

static void *maker(void *process)
{
	for (unsigned long copy = 0; copy < COPIES; copy++) {
		while (progress->b < copy)
			sched_yield();
		usleep(300); /* the agent has its turn too */
		set_up((long)process, copy);
		atomic_fetch_add(&progress->ready, 1);
	}
	return NULL;
}

static void turn(unsigned long step)
{
	while (progress->step != step)
		sched_yield();
}

static void start_maker(long process)
{
	pthread_t thread;
	pthread_attr_t attributes;
	cpu_set_t others;

	CPU_ZERO(&others);
	CPU_SET(2, &others);
	CPU_SET(3, &others);
	pthread_attr_init(&attributes);
	pthread_attr_setaffinity_np(&attributes, sizeof(others), &others);
	must(-pthread_create(&thread, &attributes, maker, (void *)process));
}

void testcase_prepare(unsigned long nr_tasks)
{
	const struct rlimit most = { FILES, FILES };

	(void)nr_tasks;
	must(setrlimit(RLIMIT_NOFILE, &most));
	memset(fds, -1, sizeof(fds));
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1,
			0);
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
}

static void prepare_task(int value)
{
	const struct sigaction act = { .sa_handler = faulted, .sa_flags = SA_NODEFER };

	sigaction(SIGSEGV, &act, NULL);
	sigaction(SIGBUS, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
	memset(page, value, PAGE);
	memset(status, 0, sizeof(status));
}

#define OPERATIONS(WAITS_FOR, MADE, CALL)                                        \
	for (unsigned long copy = 0;; copy++) {                                  \
		if (copy < COPIES) {                                             \
			while (WAITS_FOR)                                        \
				__builtin_ia32_pause();                          \
			CALL;                                                    \
			progress->MADE = copy + 1;                               \
		}                                                                \
		++*iterations;                                                   \
	}

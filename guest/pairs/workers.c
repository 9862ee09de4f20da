// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "workers.h"

#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_BYTES 128 /* the longest of any architecture */
#define LOOK_S 1       /* for one that has died */

/* The process of two threads, then the two processes. */
enum who { SAME_A, SAME_B, TWO_0, TWO_1, NR_WORKERS };

enum order { ENTER, MAKE, SEND, RECEIVE, LEAVE };

struct worker {
	uint32_t busy; /* a futex: set by who gives an order, cleared by the worker */
	enum order order;
	int first, end; /* calls to make */
	int failed;	/* errno of an order */
} __attribute__((aligned(LINE_BYTES)));

static struct shared {
	struct worker workers[NR_WORKERS];
	struct test test;
	char folder[32]; /* of the test's files */
} *shared;

static pid_t pids[NR_WORKERS]; /* SAME_B has none of its own */
static const int *pin_to;
static int sockets[2] = { OWN_FD, OWN_FD + 1 };

static void wait_while(uint32_t *word, uint32_t value)
{
	const struct timespec most = { .tv_sec = LOOK_S };

	syscall(SYS_futex, word, FUTEX_WAIT, value, &most, NULL, 0);
}

static void set(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* By a worker. */

/* Calls to set up, or A alone, or B alone. */
static void make_calls(struct worker *me)
{
	for (int i = me->first; i < me->end; i++)
		call_make(&shared->test.calls[i], &shared->test.results[i]);
}

static int obey(struct worker *me, int who)
{
	const struct call *call = &shared->test.calls[me->first];
	struct result *result = &shared->test.results[me->first];

	switch (me->order) {
	case ENTER:
		return chdir(shared->folder);
	case MAKE:
		make_calls(me);
		return 0;
	case SEND:
		*result = (struct result){ .kind = RESULT_NUMBER, .value = call->to };
		if (send_fd(sockets[who == TWO_1], call->fd))
			*result = (struct result){ .kind = RESULT_ERROR, .value = errno };
		return 0;
	case RECEIVE:
		return result->kind == RESULT_NUMBER ? receive_fd(sockets[who == TWO_1], call->to) : 0;
	case LEAVE:
		if (who != SAME_B)
			calls_undo();
		return chdir("..");
	}
	return 0;
}

static void *work(void *argument)
{
	struct worker *me = argument;
	int who = me - shared->workers, cpu = who == SAME_B || who == TWO_1;
	cpu_set_t cpus;

	if (pin_to) {
		CPU_ZERO(&cpus);
		CPU_SET(pin_to[cpu], &cpus);
		sched_setaffinity(0, sizeof(cpus), &cpus);
	}
	calls_prepare();
	while (1) {
		while (!__atomic_load_n(&me->busy, __ATOMIC_ACQUIRE))
			wait_while(&me->busy, 0);
		me->failed = obey(me, who) ? errno : 0;
		set(&me->busy, 0);
	}
	return NULL;
}

static int start(enum who who)
{
	pid_t parent = getpid();
	pthread_t second;

	pids[who] = fork();
	if (pids[who])
		return pids[who] < 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (who == SAME_A && pthread_create(&second, NULL, work, &shared->workers[SAME_B]))
		_exit(1);
	work(&shared->workers[who]);
	_exit(1);
}

/* By who gives orders. */

/* Descriptors below the program's own are the calls'. */
static int make_sockets(void)
{
	int ends[2];

	if (syscall(SYS_close_range, FIRST_FD, ~0u, 0) || socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	for (int i = 0; i < 2; i++)
		if (dup2(ends[i], sockets[i]) < 0 || close(ends[i]))
			return 1;
	return 0;
}

struct test *workers_start(const int cpus[2])
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (shared == MAP_FAILED || make_sockets() || calls_share())
		return NULL;
	snprintf(shared->folder, sizeof(shared->folder), "pairs.%d", getpid());
	pin_to = cpus;
	if (start(SAME_A) || start(TWO_0) || start(TWO_1))
		return NULL;
	return &shared->test;
}

void workers_stop(void)
{
	for (int who = 0; who < NR_WORKERS; who++) {
		if (pids[who] > 0) {
			kill(pids[who], SIGKILL);
			waitpid(pids[who], NULL, 0);
		}
	}
}

/* Set `error` if a worker has died, which no call is reason for. */
static int look_for_dead(char *error)
{
	int status;

	for (int who = 0; who < NR_WORKERS; who++) {
		if (pids[who] <= 0 || waitpid(pids[who], &status, WNOHANG) <= 0)
			continue;
		pids[who] = 0;
		snprintf(error, CALL_ERROR_BYTES, "a process that makes calls was ended by signal %d", WTERMSIG(status));
		return 1;
	}
	return 0;
}

static int have(enum who who, enum order order, int first, int end, char *error)
{
	struct worker *worker = &shared->workers[who];

	worker->order = order;
	worker->first = first;
	worker->end = end;
	set(&worker->busy, 1);
	while (__atomic_load_n(&worker->busy, __ATOMIC_ACQUIRE)) {
		wait_while(&worker->busy, 1);
		if (__atomic_load_n(&worker->busy, __ATOMIC_ACQUIRE) && look_for_dead(error))
			return 1;
	}
	if (worker->failed)
		snprintf(error, CALL_ERROR_BYTES, "a process cannot prepare for a call: %s", strerror(worker->failed));
	return worker->failed != 0;
}

static enum who maker_of(const struct test *test, const struct call *call)
{
	if (test->same)
		return call->role == ROLE_B ? SAME_B : SAME_A;
	return call->process ? TWO_1 : TWO_0;
}

/* One wait for all calls in a row that one worker makes to set up. */
static int set_up(const struct test *test, char *error)
{
	int first = 0, end;

	for (; first < test->nr_calls && test->calls[first].role == ROLE_SET_UP; first = end) {
		const struct call *call = &test->calls[first];
		enum who who = maker_of(test, call);

		end = first + 1;
		if (call->kind == CALL_RECEIVE) {
			if (have(who ^ TWO_0 ^ TWO_1, SEND, first, end, error) || have(who, RECEIVE, first, end, error))
				return 1;
			continue;
		}
		while (end < test->nr_calls && test->calls[end].role == ROLE_SET_UP &&
		       test->calls[end].kind != CALL_RECEIVE && maker_of(test, &test->calls[end]) == who)
			end++;
		if (have(who, MAKE, first, end, error))
			return 1;
	}
	return 0;
}

static int make_pair(const struct test *test, int b_first, char *error)
{
	int a = test->nr_calls - 2, b = a + 1;

	if (a < 0 || test->calls[a].role != ROLE_A)
		return 0;
	for (int nr = 0; nr < 2; nr++) {
		int i = nr == b_first ? a : b;

		if (have(maker_of(test, &test->calls[i]), MAKE, i, i + 1, error))
			return 1;
	}
	return 0;
}

static int each_enters_or_leaves(const struct test *test, enum order order, char *error)
{
	if (test->same)
		return have(SAME_A, order, 0, 0, error);
	return have(TWO_0, order, 0, 0, error) || have(TWO_1, order, 0, 0, error);
}

static int remove_folder(char *error)
{
	DIR *folder = opendir(shared->folder);
	int failed = !folder;

	for (struct dirent *entry; folder && (entry = readdir(folder));)
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			failed |= unlinkat(dirfd(folder), entry->d_name, 0);
	if (folder)
		closedir(folder);
	if (failed || rmdir(shared->folder))
		return snprintf(error, CALL_ERROR_BYTES, "cannot remove the folder %s: %s", shared->folder, strerror(errno)), 1;
	return 0;
}

int workers_play(struct test *test, int b_first, char error[CALL_ERROR_BYTES])
{
	if (mkdir(shared->folder, 0700))
		return snprintf(error, CALL_ERROR_BYTES, "cannot make the folder %s: %s", shared->folder, strerror(errno)), 1;
	if (each_enters_or_leaves(test, ENTER, error) || set_up(test, error) || make_pair(test, b_first, error) ||
	    each_enters_or_leaves(test, LEAVE, error)) {
		char another[CALL_ERROR_BYTES];

		return remove_folder(another), 1;
	}
	return remove_folder(error);
}

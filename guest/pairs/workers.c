// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "workers.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "machine/affinity.h"
#include "machine/clock.h"
#include "protocol/recorder.h"
#include "tasks/die_with.h"
#include "tasks/yield.h"

#define SPINS_BY_THE_CLOCK 4096
#define SPINS_OF_MOST (1 << 20) /* nearly every call returns sooner */
#define INSNS_OF_A_SPIN 4096
#define LOOK_S 1 /* for a worker that has died */
#define HIGHEST_FD 1024

enum order { TAKE_FDS, MAKE, MAKE_RECORDED, SEND, UNDO, SLEEP };

struct copy;

/* Makes the calls of one side on its own CPU. Each has a page of its own. */
struct worker {
	struct copy *copy;
	int cpu; /* -1: any */
	unsigned int wanted; /* how many orders it was given; a futex while it sleeps */
	unsigned int done; /* a futex while the caller sleeps */
	enum order order;
	unsigned int first, end; /* of the test's calls */
} __attribute__((aligned(4096)));

/* The threads of one process; or two processes. Only one of the two sides is awake at a time. */
struct side {
	struct worker workers[2];
};

struct copy {
	struct side sides[2]; /* [0]: two threads of one process, [1]: two processes */
	struct result results[MOST_CALLS];
};

/* Shared with the workers. */
static struct shared {
	struct copy copies[MOST_COPIES];
	struct test test; /* the current one */
} *shared;

static struct workers_config config;
static pid_t pids[MOST_COPIES][3]; /* the process of two threads, and the two processes */
static int awake = -1;		   /* which side of each copy */

static void wait_while(unsigned int *word, unsigned int value, const struct timespec *most)
{
	syscall(SYS_futex, word, FUTEX_WAIT, value, most, NULL, 0);
}

static void wake(unsigned int *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* By a worker. */

static struct result result_of(int failed, const struct call *call)
{
	return (struct result){ .kind = failed ? RESULT_ERROR : RESULT_NUMBER, .value = failed ? errno : call->to };
}

static void make_calls(const struct worker *worker)
{
	for (unsigned int i = worker->first; i < worker->end; i++) {
		const struct call *call = &shared->test.calls[i].call;
		struct result *result = &worker->copy->results[i];

		if (call->kind != CALL_RECEIVE)
			call_make(call, result);
		else if (result->kind == RESULT_NUMBER) /* the other process has sent it */
			*result = result_of(receive_fd(OWN_FD + call->process, call->to), call);
	}
}

/* Several calls may name the same file: to remove it again does no harm. */
static void undo(const struct worker *worker)
{
	calls_undo();
	for (unsigned int i = worker->first; i < worker->end; i++)
		for (int name = 0; name < 2; name++)
			if (*shared->test.calls[i].call.names[name])
				unlink(shared->test.calls[i].call.names[name]);
}

/* Take the descriptors below the test's own: the lowest free one is then the test's first. */
static void take_fds(void)
{
	for (int fd = FIRST_FD; fd < FIRST_FD + shared->test.moved; fd++)
		dup2(OWN_FD, fd);
}

static void obey(const struct worker *worker)
{
	const struct call *first = &shared->test.calls[worker->first].call;
	struct result *result = &worker->copy->results[worker->first];

	switch (worker->order) {
	case TAKE_FDS:
		take_fds();
		break;
	case MAKE:
		make_calls(worker);
		break;
	case MAKE_RECORDED:
		recorder_mark(MARK_CALL, NULL, 0);
		call_make(first, result);
		recorder_mark(MARK_CALL_END, NULL, 0);
		break;
	case SEND:
		*result = result_of(send_fd(OWN_FD + !first->process, first->fd), first);
		break;
	case UNDO:
		undo(worker);
		break;
	case SLEEP:
		break;
	}
}

static void work(struct worker *worker)
{
	unsigned int done = 0;
	int sleeps = 1;

	calls_prepare();
	if (worker->cpu >= 0 && pin(0, worker->cpu))
		_exit(1);
	for (;;) {
		while (__atomic_load_n(&worker->wanted, __ATOMIC_ACQUIRE) == done) {
			if (sleeps)
				wait_while(&worker->wanted, done, NULL);
			else
				let_another_run();
		}
		done++;
		sleeps = !config.spins || worker->order == SLEEP;
		obey(worker);
		__atomic_store_n(&worker->done, done, __ATOMIC_RELEASE);
		if (!config.spins)
			wake(&worker->done);
	}
}

static void *second_thread(void *worker)
{
	work(worker);
	return NULL;
}

/* Keep only the sockets of the descriptors that are not the calls', and free the first that calls use. */
static void leave_files(const int *sockets)
{
	for (int i = 0; i < 2; i++)
		dup2(sockets[i], OWN_FD + 2 + i);
	for (int i = 0; i < 2; i++)
		dup2(OWN_FD + 2 + i, OWN_FD + i);
	for (int fd = FIRST_FD; fd < HIGHEST_FD; fd++)
		if (fd != OWN_FD && fd != OWN_FD + 1)
			close(fd);
}

/* By the caller. */

static int start_process(pid_t *pid, struct worker *worker, struct worker *thread, const int *sockets)
{
	pid_t parent = getpid();
	pthread_t second;

	*pid = fork();
	if (*pid)
		return *pid < 0;
	die_with(parent);
	leave_files(sockets);
	if (thread && pthread_create(&second, NULL, second_thread, thread))
		_exit(1);
	work(worker);
	_exit(1);
}

static int start_copy(int nr)
{
	struct copy *copy = &shared->copies[nr];
	struct worker *threads = copy->sides[0].workers, *processes = copy->sides[1].workers;
	int sockets[2], failed;

	for (int i = 0; i < 4; i++) {
		struct worker *worker = &copy->sides[i / 2].workers[i % 2];

		worker->copy = copy;
		worker->cpu = config.cpus ? config.cpus[2 * nr + i % 2] : -1;
	}
	if (calls_share() || socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets))
		return 1;
	failed = start_process(&pids[nr][0], &threads[0], &threads[1], sockets) ||
		 start_process(&pids[nr][1], &processes[0], NULL, sockets) ||
		 start_process(&pids[nr][2], &processes[1], NULL, sockets);
	close(sockets[0]);
	close(sockets[1]);
	return failed;
}

/* Its processes inherit the folder. */
static int start_in_folder(int nr)
{
	char folder[16];

	snprintf(folder, sizeof(folder), "copy%d", nr);
	return mkdir(folder, 0700) || chdir(folder) || start_copy(nr) || chdir("..");
}

struct test *workers_start(const struct workers_config *wanted)
{
	int failed = 0;

	config = *wanted;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (shared == MAP_FAILED)
		return NULL;
	for (int nr = 0; nr < config.copies && !failed; nr++)
		failed = config.copies == 1 ? start_copy(nr) : start_in_folder(nr);
	return failed ? NULL : &shared->test;
}

void workers_stop(void)
{
	for (int i = 0; i < 3 * config.copies; i++) {
		pid_t pid = pids[i / 3][i % 3];

		if (pid > 0) {
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
		}
	}
}

static int has_failed(const struct worker *worker, int signal)
{
	int makes_calls = worker->order != UNDO && worker->order != SLEEP;

	config.failed(worker->cpu, makes_calls ? shared->test.calls[worker->first].text : NULL, signal);
	return 1;
}

/* The clock follows the instructions of all CPUs, and the emulator takes long for spins that only yield. */
static void let_time_pass(void)
{
	for (int i = 0; i < INSNS_OF_A_SPIN / 2; i++)
		asm volatile("");
}

/* Its call may hang, or it may have died. */
static int await_spinning(const struct worker *worker)
{
	uint64_t deadline = clock_ns() + config.patience_ns;

	for (unsigned long spins = 1; __atomic_load_n(&worker->done, __ATOMIC_ACQUIRE) != worker->wanted; spins++) {
		if (spins > SPINS_OF_MOST)
			let_time_pass();
		let_another_run();
		if (spins % SPINS_BY_THE_CLOCK == 0 && clock_ns() > deadline)
			return has_failed(worker, 0);
	}
	return 0;
}

/* Calls do not end a process: one that died was killed. */
static int await_asleep(struct worker *worker)
{
	const struct timespec most = { .tv_sec = LOOK_S };
	unsigned int done;

	while ((done = __atomic_load_n(&worker->done, __ATOMIC_ACQUIRE)) != worker->wanted) {
		wait_while(&worker->done, done, &most);
		for (int i = 0; i < 3 * config.copies && __atomic_load_n(&worker->done, __ATOMIC_ACQUIRE) == done; i++) {
			pid_t *pid = &pids[i / 3][i % 3];
			int status;

			if (*pid <= 0 || waitpid(*pid, &status, WNOHANG) <= 0)
				continue;
			*pid = 0;
			return has_failed(worker, WTERMSIG(status));
		}
	}
	return 0;
}

static int give_order(struct worker *worker, enum order order, unsigned int first, unsigned int end, int is_asleep)
{
	worker->order = order;
	worker->first = first;
	worker->end = end;
	__atomic_add_fetch(&worker->wanted, 1, __ATOMIC_RELEASE);
	if (is_asleep)
		wake(&worker->wanted);
	return config.spins ? await_spinning(worker) : await_asleep(worker);
}

static int give(struct worker *worker, enum order order, unsigned int first, unsigned int end)
{
	return give_order(worker, order, first, end, !config.spins);
}

int workers_change_sides(int to)
{
	if (awake == to || !config.spins)
		return 0;
	for (int nr = 0; nr < config.copies; nr++) {
		struct side *sides = shared->copies[nr].sides;

		for (int i = 0; i < 2 && awake >= 0; i++)
			if (give(&sides[awake].workers[i], SLEEP, 0, 0))
				return 1;
		for (int i = 0; i < 2; i++)
			if (give_order(&sides[to].workers[i], UNDO, 0, 0, 1))
				return 1;
	}
	awake = to;
	return 0;
}

static struct worker *worker_of(int nr, const struct call *call)
{
	int two = shared->test.two_processes;

	return &shared->copies[nr].sides[two].workers[two ? call->process : call->role == ROLE_B];
}

/* How many calls from that one on a worker makes by itself. */
static unsigned int run_of_calls(int nr, unsigned int first, unsigned int end)
{
	const struct test_call *calls = shared->test.calls;
	unsigned int next = first + 1;

	while (calls[first].call.kind != CALL_RECEIVE && next < end && calls[next].call.kind != CALL_RECEIVE &&
	       worker_of(nr, &calls[next].call) == worker_of(nr, &calls[first].call))
		next++;
	return next - first;
}

int workers_set_up(int nr)
{
	const struct test *test = &shared->test;
	struct side *sides = shared->copies[nr].sides;
	unsigned int end = test->nr_calls - (test_has_pair(test) ? 2 : 0), calls;

	for (int process = 0; process <= test->two_processes; process++)
		if (test->moved && give(&sides[test->two_processes].workers[process], TAKE_FDS, 0, 0))
			return 1;
	for (unsigned int first = 0; first < end; first += calls) {
		const struct call *call = &test->calls[first].call;

		calls = run_of_calls(nr, first, end);
		if (call->kind == CALL_RECEIVE && give(&sides[1].workers[!call->process], SEND, first, first + 1))
			return 1;
		if (give(worker_of(nr, call), MAKE, first, first + calls))
			return 1;
	}
	return 0;
}

int workers_make(int nr, unsigned int call, int recorded)
{
	return give(worker_of(nr, &shared->test.calls[call].call), recorded ? MAKE_RECORDED : MAKE, call, call + 1);
}

int workers_undo(int nr)
{
	struct worker *workers = shared->copies[nr].sides[shared->test.two_processes].workers;

	return (shared->test.two_processes && give(&workers[1], UNDO, 0, 0)) ||
	       give(&workers[0], UNDO, 0, shared->test.nr_calls);
}

const struct result *workers_result(int nr, unsigned int call)
{
	return &shared->copies[nr].results[call];
}

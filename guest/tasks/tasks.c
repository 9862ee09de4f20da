// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "tasks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "die_with.h"
#include "machine/affinity.h"
#include "protocol/job.h"
#include "protocol/report.h"
#include "time_slices.h"

#define STATUS_RETURNED 113 /* high, so that a workload's own exit() is not mistaken for it */

#define END_THREAD (SIGRTMAX - 1) /* which no workload uses */
#define POLL_US 1000
#define MOST_LOOKS 5000

/* The workload: will-it-scale's interface. Without one, commands can be run. */
extern void __attribute__((weak)) testcase_prepare(unsigned long nr_tasks);
extern void __attribute__((weak)) testcase_cleanup(void);
/* Of a round; a workload that has rounds sets it in testcase_prepare(), the others have none. */
extern unsigned long __attribute__((weak)) testcase_operations;
extern void __attribute__((weak)) *testcase(unsigned long long *iterations, unsigned long nr);
void new_task(void *(*func)(void *), void *arg);

struct task {
	unsigned long nr;
	int cpu;
	pid_t pid;
	pthread_t thread;
	unsigned long long *slot;
	volatile unsigned long long *target;
};

static struct {
	struct task *all;
	unsigned long nr;
	char *slots;
	char *targets; /* as far apart as the slots, but not in them: the recorder takes what is there for counts */
	unsigned int *below_target; /* shared: how many tasks have not reached their targets; a futex */
	pid_t *thread_ids; /* shared with the tasks; 0 until a task is on its CPU */
	int start_pipe[2]; /* each task waits for one byte */
	int in_threads;
	int by_operation; /* each operation ends the task's time slice on the emulator */
	unsigned long nr_dead_threads;
} tasks;

static void wait_for_release(void)
{
	char byte;

	if (read(tasks.start_pipe[0], &byte, 1) != 1)
		_exit(1);
}

void begin_round(unsigned long long *iterations)
{
	wait_for_release();
	++*iterations;
}

int workload_is_bounded(void)
{
	return &testcase_operations != NULL;
}

unsigned long operations_of_a_round(void)
{
	return testcase_operations;
}

static void *task_main(void *arg)
{
	struct task *task = arg;

	if (pin(0, task->cpu)) {
		report_error("machine", "cannot pin task %lu to CPU %d: %m", task->nr, task->cpu);
		_exit(1);
	}
	__atomic_store_n(&tasks.thread_ids[task->nr], gettid(), __ATOMIC_RELEASE);
	if (!workload_is_bounded())
		wait_for_release();
	if (tasks.by_operation)
		end_time_slices_with(task->slot, task->target, tasks.below_target, task->nr);
	testcase(task->slot, task->nr);
	__atomic_add_fetch(&tasks.nr_dead_threads, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* will-it-scale's helper for a testcase that wants a companion, on its own CPU: affinity is inherited. */
void new_task(void *(*func)(void *), void *arg)
{
	pid_t parent = getpid(), pid = -1;
	pthread_t thread;

	if (tasks.in_threads)
		errno = pthread_create(&thread, NULL, func, arg);
	else
		pid = fork();
	if (tasks.in_threads ? errno : pid < 0) {
		report_error("machine", "cannot start a task's companion: %m");
		_exit(1);
	}
	if (pid)
		return;
	die_with(parent);
	end_no_time_slices();
	func(arg);
	_exit(0);
}

static int start_task(struct task *task)
{
	pid_t runner = getpid();

	if (tasks.in_threads)
		return pthread_create(&task->thread, NULL, task_main, task);
	task->pid = fork();
	if (task->pid)
		return task->pid < 0;
	die_with(runner);
	task_main(task);
	_exit(STATUS_RETURNED);
}

static void *share(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* Wait until each task is on its CPU and can be moved. */
static int wait_for_tasks(const struct job *job)
{
	for (unsigned long i = 0; i < job->tasks; i++) {
		while (!__atomic_load_n(&tasks.thread_ids[i], __ATOMIC_ACQUIRE)) {
			if (report_dead_task(job))
				return 1;
			usleep(POLL_US);
		}
	}
	return 0;
}

/* As SIGKILL ends a process: at once, whatever it is in the middle of. */
static void end_thread(int signal)
{
	(void)signal;
	syscall(SYS_exit, 0);
}

static int count_threads(void (*each)(pid_t thread))
{
	DIR *all = opendir("/proc/self/task");
	int number = 0;

	for (struct dirent *entry; all && (entry = readdir(all));) {
		if (atoi(entry->d_name) <= 0)
			continue;
		each(atoi(entry->d_name));
		number++;
	}
	if (all)
		closedir(all);
	return number;
}

static void end_other(pid_t thread)
{
	if (thread != gettid())
		tgkill(getpid(), thread, END_THREAD);
}

/* Companions, too. A thread that blocks all signals is not waited for. */
static void end_threads(void)
{
	for (int looks = 0; count_threads(end_other) > 1 && looks < MOST_LOOKS; looks++)
		usleep(POLL_US);
}

int start_tasks(const struct job *job)
{
	struct cpus allowed;

	tasks.in_threads = job->threads;
	tasks.by_operation = job->time_slices;
	set_time_slices(job->time_slice_operations, job->time_slice_seed);
	if (tasks.in_threads)
		sigaction(END_THREAD, &(struct sigaction){ .sa_handler = end_thread }, NULL);
	tasks.all = calloc(job->tasks, sizeof(*tasks.all));
	tasks.slots = share(job->tasks * TASK_SLOT_BYTES);
	tasks.thread_ids = share(job->tasks * sizeof(*tasks.thread_ids));
	tasks.targets = share(job->tasks * TASK_SLOT_BYTES);
	tasks.below_target = share(sizeof(*tasks.below_target));
	if (!tasks.all || !tasks.slots || !tasks.thread_ids || !tasks.targets || !tasks.below_target ||
	    pipe2(tasks.start_pipe, O_CLOEXEC) || allowed_cpus(&allowed))
		return report_error("machine", "cannot prepare %lu tasks: %m", job->tasks);
	tasks.nr = job->tasks;
	if (testcase_prepare)
		testcase_prepare(job->tasks);
	for (unsigned long i = 0; i < job->tasks; i++) {
		tasks.all[i] = (struct task){
			.nr = i,
			.cpu = nth_cpu(i, &allowed),
			.slot = (void *)(tasks.slots + i * TASK_SLOT_BYTES),
			.target = (void *)(tasks.targets + i * TASK_SLOT_BYTES),
		};
		if (start_task(&tasks.all[i]))
			return report_error("machine", "cannot start task %lu of %lu: %m", i, job->tasks);
	}
	return wait_for_tasks(job);
}

void release_tasks(const struct job *job)
{
	for (unsigned long i = 0; i < job->tasks; i++)
		if (write(tasks.start_pipe[1], "", 1) != 1)
			report_error("machine", "cannot release task %lu: %m", i);
}

void gather_tasks(const struct job *job)
{
	for (unsigned long i = 0; i < job->tasks; i++)
		pin(tasks.thread_ids[i], tasks.all[0].cpu);
}

void spread_tasks(const struct job *job)
{
	for (unsigned long i = 0; i < job->tasks; i++)
		pin(tasks.thread_ids[i], tasks.all[i].cpu);
}

void stop_tasks(const struct job *job)
{
	if (tasks.in_threads)
		end_threads();
	for (unsigned long i = 0; i < job->tasks && !tasks.in_threads; i++)
		kill(tasks.all[i].pid, SIGKILL);
	for (unsigned long i = 0; i < job->tasks && !tasks.in_threads; i++)
		waitpid(tasks.all[i].pid, NULL, 0);
	if (testcase_cleanup)
		testcase_cleanup();
}

uint64_t task_slots(void)
{
	return (uint64_t)tasks.slots;
}

uint64_t task_operations(unsigned long task)
{
	return *(volatile unsigned long long *)tasks.all[task].slot;
}

void set_targets(const uint64_t *operations)
{
	__atomic_store_n(tasks.below_target, tasks.nr, __ATOMIC_RELAXED);
	for (unsigned long i = 0; i < tasks.nr; i++)
		*tasks.all[i].target = operations[i];
}

void wait_for_targets(uint64_t ns)
{
	const struct timespec most = { ns / 1000000000, ns % 1000000000 };
	unsigned int now = __atomic_load_n(tasks.below_target, __ATOMIC_RELAXED);

	if (now)
		syscall(SYS_futex, tasks.below_target, FUTEX_WAIT, now, &most, NULL, 0);
}

void read_operations(uint64_t *operations, unsigned long number)
{
	for (unsigned long i = 0; i < number; i++)
		operations[i] = task_operations(i);
}

int task_waits(unsigned long task, char *function, int bytes)
{
	char path[40];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/wchan", tasks.thread_ids[task]);
	*function = 0;
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (!fgets(function, bytes, file))
		*function = 0;
	fclose(file);
	return *function && strcmp(function, "0");
}

int is_workload_task(unsigned int pid)
{
	for (unsigned long i = 0; i < tasks.nr; i++)
		if ((unsigned int)tasks.thread_ids[i] == pid)
			return 1;
	return 0;
}

#define RETURNED "testcase() returned, which it must not: it counts operations until it is killed"

int report_dead_task(const struct job *job)
{
	int status;

	if (tasks.in_threads && __atomic_load_n(&tasks.nr_dead_threads, __ATOMIC_RELAXED))
		return report_error("workload", RETURNED "%s", workload_stderr());
	for (unsigned long i = 0; i < job->tasks && !tasks.in_threads; i++) {
		if (waitpid(tasks.all[i].pid, &status, WNOHANG) <= 0)
			continue;
		if (WIFSIGNALED(status))
			return report_error("workload", "task %lu was killed by signal %d (%s)%s", i, WTERMSIG(status),
					    strsignal(WTERMSIG(status)), workload_stderr());
		if (WEXITSTATUS(status) == STATUS_RETURNED)
			return report_error("workload", RETURNED "%s", workload_stderr());
		return report_error("workload", "task %lu ended by itself with status %d%s", i, WEXITSTATUS(status),
				    workload_stderr());
	}
	return 0;
}

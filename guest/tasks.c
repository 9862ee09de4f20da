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
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "affinity.h"
#include "hotplug.h"
#include "job.h"
#include "report.h"
#include "turns.h"

#define KERNEL_THREAD 0x00200000ul /* PF_KTHREAD, among the flags in /proc/PID/stat */
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
	volatile unsigned long long *goal;
};

static struct task *tasks;
static unsigned long nr_tasks;
static char *slots;
static char *goals; /* as far apart, and not among what the recorder takes for counts */
static unsigned int *left; /* shared: how many tasks have not reached their goals; a futex */
static pid_t *thread_ids; /* of the tasks, shared with them; 0 until a task is on its CPU */
static int gate[2]; /* each task waits for one byte of it */
static int in_threads;
static int by_operation; /* a task's turn on the emulator ends with each of its operations */
static unsigned long nr_dead_threads;

void die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1); /* it died before the kernel knew */
}

static void wait_for_release(void)
{
	char byte;

	if (read(gate[0], &byte, 1) != 1)
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
	__atomic_store_n(&thread_ids[task->nr], gettid(), __ATOMIC_RELEASE);
	if (!workload_is_bounded())
		wait_for_release();
	if (by_operation)
		end_turns_with(task->slot, task->goal, left, task->nr);
	testcase(task->slot, task->nr);
	__atomic_add_fetch(&nr_dead_threads, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* will-it-scale's helper for a testcase that wants a companion, on its own CPU: affinity is inherited. */
void new_task(void *(*func)(void *), void *arg)
{
	pid_t parent = getpid(), pid = -1;
	pthread_t thread;

	if (in_threads)
		errno = pthread_create(&thread, NULL, func, arg);
	else
		pid = fork();
	if (in_threads ? errno : pid < 0) {
		report_error("machine", "cannot start a task's companion: %m");
		_exit(1);
	}
	if (pid)
		return;
	die_with(parent);
	end_no_turns();
	func(arg);
	_exit(0);
}

static int start_task(struct task *task)
{
	pid_t runner = getpid();

	if (in_threads)
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

/* Until each is on its CPU and can be moved. */
static int wait_for_tasks(const struct job *job)
{
	for (unsigned long i = 0; i < job->tasks; i++) {
		while (!__atomic_load_n(&thread_ids[i], __ATOMIC_ACQUIRE)) {
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

/* Their companions too. One that blocks all signals is not waited for. */
static void end_threads(void)
{
	for (int looks = 0; count_threads(end_other) > 1 && looks < MOST_LOOKS; looks++)
		usleep(POLL_US);
}

int start_tasks(const struct job *job)
{
	struct cpus allowed;

	in_threads = job->threads;
	by_operation = job->turns;
	set_turns(job->turn_operations, job->turn_seed);
	if (in_threads)
		sigaction(END_THREAD, &(struct sigaction){ .sa_handler = end_thread }, NULL);
	tasks = calloc(job->tasks, sizeof(*tasks));
	slots = share(job->tasks * TASK_SLOT_BYTES);
	thread_ids = share(job->tasks * sizeof(*thread_ids));
	goals = share(job->tasks * TASK_SLOT_BYTES);
	left = share(sizeof(*left));
	if (!tasks || !slots || !thread_ids || !goals || !left || pipe2(gate, O_CLOEXEC) ||
	    allowed_cpus(&allowed))
		return report_error("machine", "cannot prepare %lu tasks: %m", job->tasks);
	nr_tasks = job->tasks;
	cpus_to_cycle = job->cpus_to_cycle;
	if (testcase_prepare)
		testcase_prepare(job->tasks);
	for (unsigned long i = 0; i < job->tasks; i++) {
		tasks[i] = (struct task){
			.nr = i,
			.cpu = nth_cpu(i, &allowed),
			.slot = (void *)(slots + i * TASK_SLOT_BYTES),
			.goal = (void *)(goals + i * TASK_SLOT_BYTES),
		};
		if (start_task(&tasks[i]))
			return report_error("machine", "cannot start task %lu of %lu: %m", i, job->tasks);
	}
	return wait_for_tasks(job);
}

void release_tasks(const struct job *job)
{
	for (unsigned long i = 0; i < job->tasks; i++)
		if (write(gate[1], "", 1) != 1)
			report_error("machine", "cannot release task %lu: %m", i);
}

void gather_tasks(const struct job *job)
{
	for (unsigned long i = 0; i < job->tasks; i++)
		pin(thread_ids[i], tasks[0].cpu);
}

void spread_tasks(const struct job *job)
{
	for (unsigned long i = 0; i < job->tasks; i++)
		pin(thread_ids[i], tasks[i].cpu);
}

void stop_tasks(const struct job *job)
{
	if (in_threads)
		end_threads();
	for (unsigned long i = 0; i < job->tasks && !in_threads; i++)
		kill(tasks[i].pid, SIGKILL);
	for (unsigned long i = 0; i < job->tasks && !in_threads; i++)
		waitpid(tasks[i].pid, NULL, 0);
	if (testcase_cleanup)
		testcase_cleanup();
}

uint64_t task_slots(void)
{
	return (uint64_t)slots;
}

uint64_t task_operations(unsigned long task)
{
	return *(volatile unsigned long long *)tasks[task].slot;
}

void set_goals(const uint64_t *operations)
{
	__atomic_store_n(left, nr_tasks, __ATOMIC_RELAXED);
	for (unsigned long i = 0; i < nr_tasks; i++)
		*tasks[i].goal = operations[i];
}

void wait_for_goals(uint64_t ns)
{
	const struct timespec most = { ns / 1000000000, ns % 1000000000 };
	unsigned int now = __atomic_load_n(left, __ATOMIC_RELAXED);

	if (now)
		syscall(SYS_futex, left, FUTEX_WAIT, now, &most, NULL, 0);
}

void read_operations(uint64_t *operations, unsigned long tasks)
{
	for (unsigned long i = 0; i < tasks; i++)
		operations[i] = task_operations(i);
}

static int is_workload_task(unsigned int pid)
{
	for (unsigned long i = 0; i < nr_tasks; i++)
		if ((unsigned int)thread_ids[i] == pid)
			return 1;
	return 0;
}

static int is_kernel_thread(unsigned int pid)
{
	char path[40], line[512];
	unsigned long flags = 0;
	const char *rest;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	file = fopen(path, "re");
	if (file && fgets(line, sizeof(line), file) && (rest = strrchr(line, ')')))
		sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags);
	if (file)
		fclose(file);
	return !!(flags & KERNEL_THREAD);
}

const char *kind_of_task(unsigned int pid)
{
	if (!pid)
		return "idle";
	if (is_workload_task(pid))
		return "workload";
	if (pid == (unsigned int)getpid())
		return "agent";
	return is_kernel_thread(pid) ? "kthread" : "task";
}

#define RETURNED "testcase() returned, which it must not: it counts operations until it is killed"

int report_dead_task(const struct job *job)
{
	int status;

	if (in_threads && __atomic_load_n(&nr_dead_threads, __ATOMIC_RELAXED))
		return report_error("workload", RETURNED "%s", workload_stderr());
	for (unsigned long i = 0; i < job->tasks && !in_threads; i++) {
		if (waitpid(tasks[i].pid, &status, WNOHANG) <= 0)
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

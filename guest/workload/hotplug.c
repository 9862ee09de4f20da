// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "hotplug.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine/affinity.h"
#include "probes/operations.h"
#include "protocol/job.h"
#include "protocol/report.h"
#include "tasks/tasks.h"

#ifndef CPU_FOLDER
#define CPU_FOLDER "/sys/devices/system/cpu"
#endif
#define SMT_CONTROL CPU_FOLDER "/smt/control"

static unsigned long cpus_to_cycle; /* 0: all but the first */

static unsigned int cycled[MOST_CPUS];
static unsigned long nr_cycled;
static const char *const state_names[] = { "offline", "online" };

void hotplug_limit(unsigned long most)
{
	cpus_to_cycle = most;
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int failed = fd < 0 || write(fd, text, strlen(text)) < 0;
	int error = errno;

	if (fd >= 0)
		close(fd);
	errno = error;
	return failed;
}

static int read_number(const char *path)
{
	FILE *file = fopen(path, "re");
	int number = -1;

	if (file && fscanf(file, "%d", &number) != 1)
		number = -1;
	if (file)
		fclose(file);
	return number;
}

/* -1: it has no such file, as the first CPU of most machines. */
static int state_of(unsigned int cpu)
{
	char path[80];

	snprintf(path, sizeof(path), CPU_FOLDER "/cpu%u/online", cpu);
	return read_number(path);
}

static int set_state(unsigned int cpu, enum hotplug_state state)
{
	char path[80];

	snprintf(path, sizeof(path), CPU_FOLDER "/cpu%u/online", cpu);
	return write_file(path, state == CPU_ONLINE ? "1" : "0");
}

static void require_state(unsigned int cpu, enum hotplug_state state)
{
	if (state_of(cpu) == (int)state || !set_state(cpu, state))
		return;
	report_error("machine", "CPU %u does not go %s: %m", cpu, state_names[state]);
	_exit(1);
}

static void put_all(enum hotplug_state state)
{
	for (unsigned long i = 0; i < nr_cycled; i++)
		require_state(cycled[i], state);
}

/* Whether it is a second thread of a core: not the first of those that share it. */
static int is_second_thread(unsigned int cpu)
{
	char path[96];
	int first;

	snprintf(path, sizeof(path), CPU_FOLDER "/cpu%u/topology/thread_siblings_list", cpu);
	first = read_number(path);
	return first >= 0 && (unsigned int)first != cpu;
}

static void choose(int (*is_wanted)(unsigned int cpu), const char *what)
{
	for (unsigned int cpu = 1; cpu < MOST_CPUS && (!cpus_to_cycle || nr_cycled < cpus_to_cycle); cpu++)
		if (state_of(cpu) >= 0 && is_wanted(cpu))
			cycled[nr_cycled++] = cpu;
	if (!nr_cycled || nr_cycled < cpus_to_cycle) {
		report_error("workload", "this machine has %lu %s, and %lu are wanted", nr_cycled, what,
			     cpus_to_cycle ? cpus_to_cycle : 1);
		_exit(1);
	}
}

static int is_any(unsigned int cpu)
{
	(void)cpu;
	return 1;
}

unsigned long hotplug_prepare(enum hotplug_state leave)
{
	choose(is_any, "CPUs that can go offline");
	put_all(leave);
	/* There, and perhaps back again. */
	if (operations_prepare(2 * nr_cycled))
		_exit(1);
	return nr_cycled;
}

/* One operation a CPU; the first has the number `nr`. */
static void enter_one_by_one(unsigned long long *iterations, enum hotplug_state state, unsigned long nr)
{
	for (unsigned long i = 0; i < nr_cycled; i++) {
		operation_begin();
		require_state(cycled[i], state);
		operation_end(nr + i, cycled[i], state_names[state]);
		++*iterations;
	}
}

void hotplug_cycle(unsigned long long *iterations, enum hotplug_state enter)
{
	for (;;) {
		begin_round(iterations);
		enter_one_by_one(iterations, enter, 0);
		put_all(!enter);
	}
}

void hotplug_there_and_back(unsigned long long *iterations)
{
	for (;;) {
		begin_round(iterations);
		enter_one_by_one(iterations, CPU_OFFLINE, 0);
		enter_one_by_one(iterations, CPU_ONLINE, nr_cycled);
	}
}

/* What `ppc64_cpu --smt=off` does; a kernel with smt/control does it by itself. */
static void put_threads(enum hotplug_state state)
{
	if (cpus_to_cycle || write_file(SMT_CONTROL, state == CPU_ONLINE ? "on" : "off"))
		put_all(state);
}

unsigned long smt_prepare(enum hotplug_state leave)
{
	choose(is_second_thread, "second threads of cores (see --topology threads=2)");
	/* Threads that are put offline one by one leave the control "on": to write "on" would do nothing then. */
	put_threads(leave);
	put_all(leave);
	if (operations_prepare(1))
		_exit(1);
	return 1;
}

/* A write to the control succeeds even where the kernel then does nothing. One thread shows it for all. */
static void require_threads_went(enum hotplug_state state)
{
	if (state_of(cycled[0]) == (int)state)
		return;
	report_error("machine", "%s did not put CPU %u %s", SMT_CONTROL, cycled[0], state_names[state]);
	_exit(1);
}

void smt_cycle(unsigned long long *iterations, enum hotplug_state enter)
{
	for (;;) {
		begin_round(iterations);
		operation_begin();
		put_threads(enter);
		operation_end(0, -1, state_names[enter]);
		require_threads_went(enter);
		++*iterations;
		put_threads(!enter);
	}
}

static signed char before[MOST_CPUS];
static char smt_before[16]; /* empty: there is no such control */

static void read_smt_control(char control[16])
{
	FILE *file = fopen(SMT_CONTROL, "re");

	if (!file || fscanf(file, "%15s", control) != 1)
		control[0] = 0;
	if (file)
		fclose(file);
}

void hotplug_remember(void)
{
	read_smt_control(smt_before);
	for (unsigned int cpu = 0; cpu < MOST_CPUS; cpu++)
		before[cpu] = state_of(cpu);
}

/* Before the CPUs: where it is "off", the kernel refuses to bring second threads online. */
static int restore_smt_control(void)
{
	char now[16];

	read_smt_control(now);
	if (!strcmp(now, smt_before) || !write_file(SMT_CONTROL, smt_before))
		return 0;
	return report_error("machine", "%s could not be set to %s again: %m", SMT_CONTROL, smt_before);
}

int hotplug_restore(void)
{
	int lost = restore_smt_control();

	for (unsigned int cpu = 0; cpu < MOST_CPUS; cpu++)
		if (before[cpu] >= 0 && state_of(cpu) != before[cpu] && set_state(cpu, before[cpu])) {
			report_error("machine", "CPU %u could not be put %s again: %m", cpu, state_names[(int)before[cpu]]);
			lost = 1;
		}
	return lost;
}

int hotplug_is_restored(void)
{
	char control[16];

	for (unsigned int cpu = 0; cpu < MOST_CPUS; cpu++)
		if (before[cpu] >= 0 && state_of(cpu) != before[cpu])
			return 0;
	read_smt_control(control);
	return !strcmp(control, smt_before);
}

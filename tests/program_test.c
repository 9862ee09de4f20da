// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * PID 1 of a test's virtual machine: it executes itself as a program, which the recorder counts: between the marks of
 * PID 1 (`record` lines of the job; the job's words are the program's arguments), or between the program's own.
 *
 *	getppid N		as many system calls
 *	own-marks getppid N	two parts of N of them each are recorded, and as many between the two are not
 *	open TASKS N		tasks on a CPU each open and close a file of their own
 *	count TASKS N		tasks on a CPU each count to N in user mode
 *	turns N			two tasks on a CPU each: how often the first saw that the other had counted, of N
 *	copy N			N copies of 64 KiB by one instruction each; only of x86
 *	symbols			makes up a symbol of the kernel
 *	ping N			a byte goes from one of two tasks to the other and back, which may run anywhere
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../guest/machine/init.h"
#include "../guest/protocol/job.h"
#include "../guest/protocol/recorder.h"
#include "../guest/protocol/report.h"

static unsigned long number(const char *text)
{
	return text ? strtoul(text, NULL, 10) : 0;
}

static void pin(unsigned int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		exit(1);
}

static void get_parent(unsigned long times)
{
	while (times--)
		syscall(SYS_getppid);
}

static void open_file(unsigned long times)
{
	char name[] = "/tmp/program.XXXXXX";
	int fd = mkstemp(name);

	if (fd < 0 || close(fd))
		exit(1);
	for (; times; times--) {
		fd = open(name, O_RDWR);
		if (fd < 0 || close(fd))
			exit(1);
	}
	unlink(name);
}

static void count(unsigned long times)
{
	for (volatile unsigned long i = 0; i < times; i++)
		;
}

static int each_on_a_cpu(unsigned long tasks, void (*run)(unsigned long times), unsigned long times)
{
	int failed = 0, status;

	for (unsigned long i = 0; i < tasks; i++) {
		pid_t pid = fork();

		if (!pid) {
			pin(i);
			run(times);
			_exit(0);
		}
		failed |= pid < 0;
	}
	while (wait(&status) > 0)
		failed |= status;
	return failed;
}

/* What two tasks share. */
static volatile unsigned long *counts;

static void take_turns(unsigned long times)
{
	unsigned int self = sched_getcpu();
	unsigned long last = counts[!self], seen = 0;

	while (!counts[16])
		if (!self)
			counts[16] = 1;
	for (unsigned long i = 0; i < times; i++) {
		counts[self]++;
		seen += counts[!self] != last;
		last = counts[!self];
		/* Two instructions each time: a compiler that unrolls the loop still has to count in steps of one. */
		for (int pause = 1000; pause; pause--)
			asm volatile("" : "+r"(pause));
	}
	if (!self)
		counts[17] = seen;
}

static int turns(unsigned long times)
{
	counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED || each_on_a_cpu(2, take_turns, times))
		return 1;
	printf("%lu\n", counts[17]);
	return 0;
}

static void copy(unsigned long times)
{
#ifdef __x86_64__
	static char from[1 << 16], to[1 << 16];

	while (times--) {
		const char *source = from;
		char *destination = to;
		size_t left = sizeof(to);

		asm volatile("rep movsb" : "+S"(source), "+D"(destination), "+c"(left) : : "memory");
	}
#else
	(void)times;
#endif
}

static int ping(unsigned long times)
{
	int there[2], back[2];
	char byte = 0;

	if (pipe(there) || pipe(back))
		return 1;
	if (!fork()) {
		while (times-- && read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
			;
		_exit(0);
	}
	while (times-- && write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1)
		;
	return wait(NULL) < 0;
}

static int run(char **words)
{
	const char *first = words[1], *second = first ? words[2] : NULL;

	if (!strcmp(words[0], "own-marks")) {
		for (int part = 0; part < 2; part++) {
			get_parent(number(second));
			record_program_begin();
			get_parent(number(second));
			record_program_end();
		}
	} else if (!strcmp(words[0], "getppid"))
		get_parent(number(first));
	else if (!strcmp(words[0], "open"))
		return each_on_a_cpu(number(first), open_file, number(second));
	else if (!strcmp(words[0], "count"))
		return each_on_a_cpu(number(first), count, number(second));
	else if (!strcmp(words[0], "turns"))
		return turns(number(first));
	else if (!strcmp(words[0], "symbols"))
		recorder_mark(MARK_SYMBOLS, "ffffffff81000000 T made_up\n", 27);
	else if (!strcmp(words[0], "copy"))
		copy(number(first));
	else if (!strcmp(words[0], "ping"))
		return ping(number(first));
	else
		return 2;
	return 0;
}

/* Its output comes as the file `stdout`. */
static int execute(const struct job *job)
{
	int output = memfd_create("stdout", MFD_CLOEXEC), status = -1;
	int own_marks = !strcmp(job->command.all[0], "own-marks");
	FILE *file;
	pid_t pid;

	record_program(job->record);
	pid = fork();
	if (!pid) {
		dup2(output, STDOUT_FILENO);
		if (!own_marks)
			record_program_begin();
		execv("/agent", job->command.all);
		_exit(127);
	}
	/* What the agent does meanwhile is not counted. */
	while (!waitpid(pid, &status, WNOHANG)) {
		get_parent(100);
		usleep(2000);
	}
	record_program_end();
	recorder_mark(MARK_DISARM, NULL, 0);
	file = fdopen(output, "r");
	rewind(file);
	report_lines("stdout", file);
	return status ? report_error("workload", "the program ended with status %#x", status) : 0;
}

int main(int argc, char **argv)
{
	char error[JOB_ERROR_BYTES] = "";
	struct job job;
	int failed;
	FILE *text;

	(void)argc;
	if (getpid() != 1)
		return run(argv);
	report_open(SECOND_SERIAL_LINE);
	report_hello();
	text = fopen("/job", "re");
	failed = !text || job_read(&job, text, error);
	if (failed)
		report_error("job", "%s", error);
	if (!failed && job.time_slice_instructions)
		recorder_mark(MARK_TIME_SLICES, (void *)job.time_slice_seed, job.time_slice_instructions);
	failed = failed || execute(&job);
	report_end(failed);
	if (job.stay)
		for (;;)
			pause();
	halt_machine();
	return failed;
}

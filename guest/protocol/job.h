/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The job: what the agent is asked to do, one "key value" a line. */
#ifndef JOB_H
#define JOB_H

#include <stdint.h>
#include <stdio.h>

/* The limits of a job: the controller refuses larger ones before (src/bigiron/machines/limits.py). */
#define MAX_SETTINGS 64
#define MAX_READS 16
#define MAX_MODULES 64
#define MAX_FUNCTIONS 256
#define MAX_WORDS 256
#define MAX_SERVICES 16
#define MAX_VARIABLES 64
#define MAX_VALUE_BYTES 4000

#define JOB_ERROR_BYTES 256

/* The words of a command, NULL after the last. */
struct words {
	unsigned long nr;
	char *all[MAX_WORDS + 1];
};

/* A program that runs beside the command. */
struct service {
	struct words words;
	struct words ready; /* a command that succeeds once it is ready; none: at once */
};

struct job {
	int threads;		   /* tasks are threads of one process, not processes */
	int time_slices;		   /* operations end a task's time slice on the emulator */
	unsigned long time_slice_operations; /* how many in a row end one; 0: one */
	unsigned long time_slice_seed;   /* of the random choice which of them do; 0: none is made */
	unsigned long time_slice_instructions; /* of a CPU, that end its time slice; 0: no number does */
	int stay;		   /* send the end message while the tasks still run, and leave them alone */
	unsigned long cpus;	   /* CPUs that must be online; 0: not checked */
	unsigned long tasks;	   /* 0: run no workload */
	unsigned long warmup;	   /* operations of each task before anything is measured */
	unsigned long samples;	   /* of throughput */
	unsigned long sample_ms;
	unsigned long operations;  /* of each task to record; 0: no recording */
	unsigned long cpus_to_cycle; /* by workloads of CPU hotplug; 0: all but the first */
	int allow_hotplug;	   /* on a real machine */
	int watch;		   /* what each single operation takes */
	unsigned long record;	   /* bits of enum recorder_what */
	unsigned long patience_s;  /* a stage that takes longer has failed */
	char *cgroup;		   /* that tasks run in, below the root group; NULL: in that */
	unsigned long nr_settings;
	char *settings[MAX_SETTINGS]; /* "PATH=VALUE" */
	unsigned long nr_modules;
	char *modules[MAX_MODULES]; /* "required FILE PARAMETERS", or "optional FILE": to load in this order */
	char *file_system; /* to work on, NULL: as the machine is */
	char *mount_options;
	unsigned long slowed; /* how many times slower than the host's clock the machine's is; 0: it is not */
	unsigned long dilated; /* instructions of all CPUs per nanosecond, if the clock follows them; 0: it does not */
	unsigned long disk_mib; /* size of the disk in memory for the file system; 0: none */
	unsigned long nr_functions;
	char *functions[MAX_FUNCTIONS]; /* to trace: names, with * for any part of one */
	int choose_functions;	   /* which account for most of the operations' time */
	unsigned long depth;	   /* of calls to trace, from those functions on */
	char *blocked;		   /* the BPF program that counts blocked time, NULL: do not */
	int blocked_user;	   /* with the stacks in user space */
	unsigned long blocked_min_us;
	unsigned long blocked_states; /* a set of them, 0: all */
	unsigned long blocked_pid; /* 0: all */
	unsigned long blocked_tgid;
	char *efficiency;	   /* the BPF program that counts what CPUs do, NULL: do not */
	unsigned long efficiency_ms;
	char *oncpu;		   /* the BPF program that counts samples, NULL: do not */
	unsigned long oncpu_ms;
	unsigned long oncpu_period_us; /* between two samples of a CPU */
	struct words command; /* to run instead of the workload */
	int in_root; /* programs run in the root file system, and the recorded part is theirs */
	unsigned long nr_services;
	struct service services[MAX_SERVICES]; /* started one after the other */
	unsigned long nr_ports;
	unsigned long ports[MAX_SERVICES]; /* of loopback, at which something must listen before the command runs */
	unsigned long nr_variables;
	char *variables[MAX_VARIABLES]; /* "NAME=VALUE" of their environment */
	char *user;		   /* that they run as; NULL: root */
	char *folder;		   /* that they work in; NULL: as the agent */
	char *command_cpus;	   /* "0-3,8" that the command may use; NULL: all */
	char *service_cpus;
	char *begin_at;		   /* what the command prints when its recorded part begins; NULL: nothing */
	char *end_at;		   /* the same of its end */
	unsigned long warm_up_ms;  /* of the command before its recorded part */
	unsigned long record_ms;   /* how long that is; 0: to the command's end */
	int marked;		   /* the program itself marks its recorded part (bigiron-mark) */
	char *tests; /* the file of pairs of calls to run instead of it, NULL: none */
	unsigned long copies; /* of each that are made at once; 0: one */
	unsigned long nr_reads;
	char *reads[MAX_READS]; /* files to report after the measurement */
};

/* Fill in a job from its text. Returns 0, or 1 with what is wrong with it in `error`. */
int job_read(struct job *job, FILE *text, char error[JOB_ERROR_BYTES]);

/* A time of the host, by the machine's clock: a slowed clock, or one that follows instructions. */
uint64_t job_dilated_ns(const struct job *job, uint64_t ns);

/* patience_s by that clock, with its unit. */
const char *job_patience(const struct job *job);

/* The unit of patience_s itself, for a machine whose CPUs are busy all the time. */
const char *job_patience_unit(const struct job *job);

#endif

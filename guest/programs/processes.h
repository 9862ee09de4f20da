/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs that are not ours: started as the job says, kept together, and cleared away with all that they started. */
#ifndef PROCESSES_H
#define PROCESSES_H

#include <signal.h>
#include <sys/types.h>

struct job;
struct words;

struct program {
	const struct words *words;
	const char *cpus;	   /* "0-3,8": those that it may use; NULL: as the caller */
	int outputs[2];		   /* what it prints goes there */
	void (*before)(void);	   /* called just before it is executed, by its process; NULL: nothing is */
};

/* From now on orphans fall to this process, and these signals, blocked, say when its children and the agent end. */
int become_subreaper(sigset_t *signals);

/* Put bigiron-mark where programs find it. Returns 0, or 1 after reporting the error. */
int install_mark(void);

/* Start it in a session of its own. Returns its process, or -1 after reporting the error: it ran nothing then. */
pid_t start_program(const struct job *job, const struct program *program);

/* End all that was started, and what became ours since; until there is none. */
void kill_descendants(void);

#endif

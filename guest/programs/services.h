/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The services of a program: servers that run beside its command, from before it to after its end. */
#ifndef SERVICES_H
#define SERVICES_H

#include <sys/types.h>

struct job;

/* Start them one after the other, each once the last is ready. Returns 0, or 1 after reporting the error. */
int services_start(const struct job *job);

/* What they print is kept in memory. Returns 1 after reporting a service that has printed too much. */
int services_print_too_much(const struct job *job);

/* A process has ended, with this status as of wait(). Returns 1 after reporting that it was a service and failed. */
int services_note_end(const struct job *job, pid_t pid, int status);

#endif
